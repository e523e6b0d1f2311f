package app

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports to choose from. They lie below 32768, where Linux by default starts
// to take the local ports of outgoing connections: a play opens thousands of
// those, and one of them could take the port between the choice and the moment
// when the application listens.
const firstPort, lastPort = 15000, 32000

// FreePort finds a TCP port on 127.0.0.1 on which nobody listens now. It is not
// reserved; another program can still take it before the application does, and
// the application then ends with its own message.
func FreePort() (int, error) {
	var last error
	for range 50 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("find a free port on 127.0.0.1: 50 tries between %d and %d failed, the last with: %w", firstPort, lastPort, last)
}
