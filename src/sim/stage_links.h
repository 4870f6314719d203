#pragma once

#include <vector>

#include "program/stage_graph.h"
#include "sim/simulate.h"

namespace trireme {

// The links between ranks of neighbouring stages and their traffic. Messages of one link follow
// each other.
class StageLinks {
 public:
  StageLinks(const Schedule& schedule, const StageGraph& graph, const Costs& costs);

  // Returns when a message of this (rank, chunk) arrives that can leave from `ready_s` on: an
  // activation at the next stage, or a gradient at the previous one.
  double deliver(int rank, int chunk, bool is_activation, double ready_s);

  // Returns the links that have been used.
  std::vector<LinkTraffic> used() const;

 private:
  int num_chunks_;
  double message_bytes_;
  std::vector<LinkTraffic> traffic_;
  std::vector<Link> models_;
  std::vector<double> free_s_;
  std::vector<size_t> to_next_;  // [rank, chunk] -> link
  std::vector<size_t> to_previous_;
};

}  // namespace trireme
