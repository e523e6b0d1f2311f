// Package singleton runs scheduled jobs on one of many instances: every
// instance knows all jobs, and each tick of a job has its effect at most once.
//
// For most cases: the same [New] with the same jobs in every instance, and
// [Runner.Run] until the instance ends.
//
// # Model
//
// A job has one record in the store: how far its ticks are decided (the
// cursor) and what became of the last ones. Who holds the job's lease (package
// lease) decides: it claims the next tick by moving the cursor over it, runs
// the job, and notes the end. The record is a lease.Guarded object, so each
// step of it is one conditional write that carries the lease's token, and the
// cursor only goes forward.
//
// The schedule that a plain lock for the job loses to:
//
//	A                              B
//	is due, takes the lock
//	is paused before it starts
//	                               sees the lock expired, takes it,
//	                               runs the tick, releases
//	goes on and runs the tick
//	a second time
//
// Here A's claim is refused, because B's token has been seen; without a claim
// it does not run. And one that looks late for a tick that is over finds the
// cursor behind it.
//
// A tick is claimed, and then done or failed; a failure is the job's own error
// and is not tried again. If the lease of a claimed tick is lost - its runner
// died or stands still - the next holder finds the claim, and cannot know how
// far the effect got. By default it calls the tick vanished and lets it be: at
// most once. With Job.Rerun it runs it again: at least once.
//
// # Promise
//
// A tick is started at most once, by one instance, whatever instances die or
// stand still and whatever their clocks show. Runs of one job do not overlap,
// as far as the context is obeyed: it ends when the lease is lost. With Rerun, a
// tick is started at most 1 + Rerun times, and the earlier runner may still be
// at work when the later one starts: effects must carry Run.Token (a
// lease.Guarded object, lease.Fence in a transaction) so that the earlier one's
// come to nothing, and be recorded under the job and tick in the same
// transaction if they must not happen twice.
//
// # Which ticks
//
// Ticks are the times of a cron expression (five fields; @hourly and the like;
// @every 10m; CRON_TZ=Europe/Berlin in front). Day of month and day of week are
// alternatives when both are given, as in POSIX cron. In a zone with summer
// time, a tick in the hour left out comes an hour later, and one in the hour
// that is there twice comes twice. They are counted from the cursor, so all
// instances agree on them; the first instance ever sets the cursor to its
// present time, and what was before is not missed.
//
// Ticks that nobody was there for, or that came due while an earlier one ran,
// are missed. Job.Missed says what becomes of them.
//
// # Clocks
//
// When a tick is due is each instance's own clock. One that is ahead makes
// ticks early and one that is behind adds nothing; neither makes a tick run
// twice. A clock that was far ahead has moved the cursor into the future, and
// the job rests until then; [Ahead] events tell of it, and [Runner.Reset] brings
// the cursor back. Whether a runner is still there is judged without comparing
// clocks, as package lease says.
//
// The expressions are read by github.com/netresearch/go-cron, the maintained
// continuation of robfig/cron, whose parser panics on some texts ("TZ=0") and
// leaves a daily tick out when summer time begins.
//
// # Limits
//
// The finest tick is a second (@every). An instance that is not the runner
// learns of the end of a run by looking, every Options.Poll. Changing a job's
// schedule while instances with the old one run makes ticks of both. Do not
// delete a job's record to repeat a tick; use Reset.
package singleton
