#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"

namespace trireme {

// A collective call whose inputs every rank can compute for every other rank, so each rank can
// check its own result. Used by tests, `trireme bench comm` and the multi-process programs.
struct CollectiveCase {
  Collective collective = Collective::AllReduce;
  Algorithm algorithm = Algorithm::Auto;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  int64_t count = 0;  // elements of the full vector
  int root = 0;
  bool integers = true;  // inputs are small integers: all algorithms must agree bit for bit
  bool uneven = false;   // counts differ by rank, and some are 0
  bool asynchronous = false;
  uint64_t seed = 1;
};

std::string to_string(const CollectiveCase& c);

class CollectiveRun {
 public:
  // Allocates the buffers of this rank. Peers on this host can access them if `visible`.
  CollectiveRun(World& world, Group& group, const CollectiveCase& c, bool visible = true);

  void fill();  // sets the inputs, and fills the outputs with a value that no result has
  void run();
  // Returns "" or a text about the first wrong element. Random data may differ by (N + 1) u sum
  // |x_i|, with u = 2^-24 for fp32 and 2^-9 for bf16, which is rounded at every addition.
  std::string verify() const;
  uint64_t output_hash() const;
  const CollectiveArgs& args() const { return args_; }

 private:
  double input(int rank, int64_t i) const;
  double expected(int64_t i, double* magnitude) const;  // expected result of the reduction
  std::string compare(int64_t out_index, double value, double bound) const;
  std::string verify_reduced(int64_t begin, int64_t count) const;
  std::string verify_copied(int64_t out_begin, int source, int64_t in_begin, int64_t count) const;
  int64_t part(int rank) const { return counts_[size_t(rank)]; }
  int64_t part_begin(int rank) const;
  int64_t sent_to(int from, int to) const;  // for all_to_all

  Group& group_;
  CollectiveCase case_;
  std::vector<int64_t> counts_;
  std::vector<int64_t> recv_counts_;
  std::unique_ptr<SharedMemory> in_;
  std::unique_ptr<SharedMemory> out_;
  std::vector<uint64_t> private_in_;
  std::vector<uint64_t> private_out_;
  CollectiveArgs args_;
};

// Runs the case once and verifies it.
std::string check_collective(World& world, Group& group, const CollectiveCase& c,
                             bool visible = true);

}  // namespace trireme
