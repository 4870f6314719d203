#pragma once

#include <functional>

#include "schema/program.h"

namespace trireme {

// Durations of one rank's actions, for exactly the units or the piece that they name.
struct OffloadCosts {
  std::function<double(const Action&)> compute_s;
  std::function<double(const Action&)> file_s;  // of FetchUnits, OffloadUnits, and of pieces
  // Share of their speed that compute and file lose while both are busy: they share the cores.
  double shared = 0.0;
};

struct OffloadTimes {
  double makespan_s = 0;
  double file_s = 0;    // of all reads and writes
  double waited_s = 0;  // time in which the rank waits for the file
  double slowed_s = 0;  // time by which the file makes the compute beside it longer

  double added_s() const { return waited_s + slowed_s; }
};

// Simulates the steady step of one rank whose state lies in a file (memory.offload). One thread
// reads and writes in the order of the actions while the rank computes. The rank waits for it as in
// the runtime: for parameters before they are read, for a piece before it is updated, for all of
// them once the last one is on its way back. Parameters that a step leaves to be written delay the
// first reads of the next one. Transfers between ranks take no time here.
OffloadTimes simulate_offload(const Program& program, const OffloadCosts& costs);

}  // namespace trireme
