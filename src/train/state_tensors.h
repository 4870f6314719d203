#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/engine.h"

namespace trireme {

// A tensor that a rank keeps from step to step, or its part of one.
struct StateTensor {
  std::string
      name;  // "wq", "master/wq", "exp_avg/wq": parameters as layers read them have no prefix
  std::string part;  // which elements of the whole; ranks with the same name and part hold the same
  TensorRef tensor_N;
};

// Parameters, master weights and moments of this rank, on every layout: whole where they are stored
// whole, else the shards that it owns. Their data must be read between two steps.
std::vector<StateTensor> state_tensors(const Engine& engine);

// The gradients that this rank owns. Read them only inside Engine::read_grads.
std::vector<StateTensor> grad_tensors(const Engine& engine);

// XXH3-64 of the bytes of each tensor, computed by all threads of the rank. Allocates only when it
// is made.
class TensorHashes {
 public:
  explicit TensorHashes(const std::vector<StateTensor>& tensors);
  // Hashes all bytes.
  void update(ThreadTeam& team);
  const std::vector<uint64_t>& values() const { return values_; }  // [tensor]
  int64_t num_bytes() const;

 private:
  std::vector<std::span<const std::byte>> tiles_;
  std::vector<uint64_t> tile_hashes_;
  std::vector<size_t> ends_;  // [tensor] of its tiles
  std::vector<uint64_t> values_;
};

}  // namespace trireme
