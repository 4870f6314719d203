#pragma once

#include <span>

#include "reproduce/published_run.h"
#include "schema/hardware.h"

namespace trireme {

// Two predictions that need no planner. An accuracy means something only beside them.

// FLOP/s of a device, the same for all runs, with which executed_flops predicts the measured times
// with the least mean absolute error.
double best_constant_flops(std::span<const PublishedRun> runs);

// Step time of a run at this speed of each device.
double constant_step_s(const PublishedRun& run, double flops);

// Executed FLOPs at the peak, plus the bytes of every axis at the bandwidth of its link. Nothing
// overlaps, no product has an efficiency, no message a latency, and no pipeline a bubble.
double roofline_step_s(const PublishedRun& run, const Hardware& hardware);

}  // namespace trireme
