//go:build !linux

package postgres

import "net"

func unread(*counted) bool { return false }

func unaccepted(net.Listener) bool { return false }
