#pragma once

#include "device/buffer.h"
#include "device/isa.h"
#include "device/stream.h"
#include "schema/ceilings.h"

namespace trireme {

struct CeilingLoops;

// Both measure until the fastest calls agree within 2 %, or for 0.3 s each. The first takes about
// 30 ms on an idle machine.
ComputeCeilings measure_compute_ceilings(Stream& stream, Isa isa);
// Takes about 200 ms on an idle machine, and allocates 128 MiB meanwhile.
Ceilings measure_ceilings(Stream& stream, Isa isa);

// Mean rates of all threads of a stream over a time. Unlike ceilings, which come from the fastest
// calls, these rates fall if something takes the cores or slows them down meanwhile.
struct SustainedRates {
  double flops_per_s = 0.0;  // in fp32
  double read_bytes_per_s = 0.0;
};
class SustainedLoops {
 public:
  SustainedLoops(Stream& stream, Isa isa);  // allocates 64 MiB; the stream must outlive this object
  // Computes for `seconds`, then reads memory for `seconds`.
  SustainedRates measure(double seconds);

 private:
  Stream& stream_;
  const CeilingLoops& loops_;
  Buffer x_;
};

}  // namespace trireme
