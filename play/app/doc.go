// Package app runs the application under test and sends it requests. It knows
// no database and no schedule: it starts a plain command line, tells when it is
// ready, asleep or gone, and speaks HTTP/1.1 to it.
//
// # Model
//
// A [Process] is one instance of the application: a command with its own
// process group. When the command's own process ends, the instance has ended,
// and what is left of the group is killed. A [Client] is one actor: one
// connection and one cookie jar that nobody else uses.
//
// # Promise
//
//   - A request is sent at most once. The client never repeats one, never
//     follows a redirect and never asks for compression, so that what the gates
//     see is what the scenario says.
//   - Two equal looks ([Look.SameAs]) mean that no thread of the application ran
//     between them. A program that waits for a lock inside its own process
//     shows in this way and in no other.
//   - The application does not outlive this process, even when this process is
//     killed: the kernel then kills the command's own process.
//
// # Limits
//
// Linux only: process groups, the parent death signal and /proc are used. A
// process that the command started itself (npm starts node) is in the group and
// ends with [Process.Stop]; but when this process is killed by SIGKILL, only the
// command's own process is sure to die with it. A program that leaves its
// process group (a daemon) is neither stopped nor, once its parent is gone,
// looked at: run applications in the foreground.
package app
