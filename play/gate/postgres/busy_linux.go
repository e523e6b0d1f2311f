package postgres

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread reports whether the kernel has received more than the gate has dealt
// with.
func unread(s *counted) bool {
	done := s.done.Load()
	info := tcpInfo(s.Conn)
	return info != nil && info.Bytes_received > done
}

// unaccepted reports whether connections wait to be accepted; of a listening
// socket the kernel gives their number in this field.
func unaccepted(l net.Listener) bool {
	info := tcpInfo(l)
	return info != nil && info.Unacked > 0
}

func tcpInfo(socket any) *unix.TCPInfo {
	s, ok := socket.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	var info *unix.TCPInfo
	var infoErr error
	err = raw.Control(func(fd uintptr) {
		info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || infoErr != nil {
		return nil
	}
	return info
}
