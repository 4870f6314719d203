#pragma once

#include <string>
#include <vector>

#include "compile/collective_price.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// How the largest collective of a kind over an axis of the mesh was priced.
struct AxisCollective {
  std::string axis;         // "tp", "dp", "cp", "ep" or "pp"
  std::string collective;   // "all_reduce", "reduce_scatter", "all_gather", "all_to_all" or "send"
  RankSpan span;            // the ranks of a group
  double sent_bytes = 0.0;  // of a rank; 0: not counted, for messages between two ranks
  double vector_bytes = 0.0;  // of what a device's library sums or gathers
  CollectivePrice price;
};
std::string_view name_of(VectorMove move);

// The collectives of rank 0 over every axis of more than one rank, and with parameter servers also
// those of a rank that is none. What parallel.tp_overlap sends
// in pieces is not listed, because it has no price of its own.
std::vector<AxisCollective> axis_collectives(const RunPlan& plan, const Hardware& hardware);

}  // namespace trireme
