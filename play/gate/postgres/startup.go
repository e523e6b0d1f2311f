package postgres

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/gate"
)

// Codes of the start-up packets that are no start-up.
const (
	cancelCode = 80877102
	sslCode    = 80877103
	gssCode    = 80877104
)

// accept serves the connections of one listener until it is closed.
func (g *Gate) accept(l net.Listener, instance int) {
	for {
		sock, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				err = fmt.Errorf("accept connections of application instance %d: %w", instance, err)
				g.sink(gate.Event{Kind: gate.Failed, Err: err})
			}
			return
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			sock.Close()
			return
		}
		g.starting[sock] = struct{}{}
		g.work.Go(func() { g.serve(sock, instance) })
		g.mu.Unlock()
	}
}

// serve leads one connection of the application from its first byte to its end.
func (g *Gate) serve(sock net.Conn, instance int) {
	defer sock.Close()
	client, first, err := g.greet(sock)
	if err != nil {
		g.mu.Lock()
		delete(g.starting, sock)
		g.mu.Unlock()
		if !isEOF(err) {
			g.refuse(client, instance, err)
		}
		return
	}
	if binary.BigEndian.Uint32(first[4:]) == cancelCode {
		g.cancel(first)
		g.mu.Lock()
		delete(g.starting, sock)
		g.mu.Unlock()
		return
	}
	c, err := g.connect(client, first, instance, sock)
	if err != nil {
		g.refuse(client, instance, err)
		return
	}
	c.server.out.put(first)
	c.flushServer()
	c.run()
}

// greet answers the questions for encryption and returns the packet that
// follows them: a start-up that the gate can handle, or a cancel request.
func (g *Gate) greet(sock net.Conn) (*side, []byte, error) {
	counting := &counted{Conn: sock}
	client := newSide(counting)
	client.socket = counting
	for {
		raw, err := client.in.startup()
		if err != nil {
			return client, nil, err
		}
		switch code := binary.BigEndian.Uint32(raw[4:]); code {
		case sslCode:
			if g.certs == nil {
				_, err = client.sock.Write([]byte{'N'})
				break
			}
			if client.in.buffered() > 0 {
				return client, nil, errors.New("bytes before the encryption was agreed: they could be somebody else's")
			}
			if _, err = client.sock.Write([]byte{'S'}); err == nil {
				client = newSide(tls.Server(counting, g.certs.config))
				client.socket = counting
			}
		case gssCode:
			_, err = client.sock.Write([]byte{'N'})
		case cancelCode:
			return client, raw, nil
		default:
			return client, raw, checkStartup(raw)
		}
		if err != nil {
			return client, nil, err
		}
	}
}

// checkStartup refuses what the gate can not follow.
func checkStartup(raw []byte) error {
	code := binary.BigEndian.Uint32(raw[4:])
	if code>>16 != 3 {
		return &UnsupportedError{What: fmt.Sprintf("protocol version %d.%d", code>>16, code&0xffff)}
	}
	params := startupParams(raw)
	for i := 0; i+1 < len(params); i += 2 {
		if params[i] != "replication" {
			continue
		}
		switch strings.ToLower(params[i+1]) {
		case "", "0", "off", "false", "no":
		default:
			return &UnsupportedError{What: "replication connections"}
		}
	}
	return nil
}

// startupParams are the names and values of a start-up packet, in turn.
func startupParams(raw []byte) []string { return strings.Split(string(raw[8:]), "\x00") }

// dial opens a connection to the real server.
func (g *Gate) dial() (net.Conn, error) {
	network, addr := "tcp", g.cfg.Upstream
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	var d net.Dialer
	up, err := d.DialContext(g.ctx, network, addr)
	if err != nil {
		return nil, &UpstreamError{Addr: g.cfg.Upstream, Err: err}
	}
	return up, nil
}

// connect opens the connection to the server and makes the pair known.
func (g *Gate) connect(client *side, first []byte, instance int, sock net.Conn) (*conn, error) {
	up, err := g.dial()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.starting, sock)
	if err != nil {
		return nil, err
	}
	if g.closed {
		return nil, errors.Join(errors.New("the gate is closed"), up.Close())
	}
	g.lastConn++
	c := &conn{gate: g, id: g.lastConn, instance: instance, client: client, server: newSide(up),
		status: 'I', over: make(chan struct{}),
		names: names{stmts: map[string]*prepared{}, portals: map[string]*portal{}}}
	c.session = newSession(g.cfg.Analyzer, first)
	g.conns[c.id] = c
	return c, nil
}

// refuse tells the client why it has no connection, and the player, since the
// application will not work without it.
func (g *Gate) refuse(client *side, instance int, err error) {
	g.log.Error("connection of the application refused", "instance", instance, "err", err)
	if _, werr := client.sock.Write(fatal("08006", err.Error())); werr != nil {
		g.log.Debug("tell the application", "err", werr)
	}
	g.sink(gate.Event{Kind: gate.Failed, Err: err})
}

// cancel forwards a cancel request and waits until the server has taken it.
func (g *Gate) cancel(raw []byte) {
	if err := g.forwardCancel(raw); err != nil {
		g.log.Error("forward a cancel request", "err", err)
	}
}

func (g *Gate) forwardCancel(raw []byte) error {
	up, err := g.dial()
	if err != nil {
		return err
	}
	defer up.Close()
	if err := up.SetDeadline(time.Now().Add(sideTimeout)); err != nil {
		return err
	}
	if _, err := up.Write(raw); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, up)
	return err
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
