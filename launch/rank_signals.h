// TERM, INT and USR1 in ranks. mpirun sends TERM and USR1 to all ranks, a terminal INT to some:
// only rank 0 decides what they mean; workers end when it tells them to, or when it dies.
#pragma once

namespace colibri {

// Rank 0, a lone process too: the first TERM, INT or USR1 sets the drain flag, the next TERM or INT
// ends the process as without a handler.
void install_drain_signals();

// Workers: TERM, INT and USR1 are ignored, from now until default_signals().
void ignore_drain_signals();

// As at the start of a process.
void default_signals();

// True once the drain flag is set. Thread safe.
bool drain_requested();

// Rank 0, after install_drain_signals(): from now on INT sets no drain flag and ends nothing; it
// is counted, two within 0.3 s as one.
void count_interrupts();
int num_interrupts();

}  // namespace colibri
