#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// The matrices of a layer that may have an adapter (LoRA, Hu et al. 2021), as users name them in
// model.lora_targets. Those with a latent are of latent attention: QA makes the latent of queries
// and QB the queries, KvA the latent of keys and values and the keys that all heads share, KvB the
// keys and the values of every head.
enum class LoraTarget : uint8_t { Q, K, V, QA, QB, KvA, KvB, O, Gate, Up, Down };
inline constexpr LoraTarget kLoraTargets[] = {LoraTarget::Q,   LoraTarget::K,   LoraTarget::V,
                                              LoraTarget::QA,  LoraTarget::QB,  LoraTarget::KvA,
                                              LoraTarget::KvB, LoraTarget::O,   LoraTarget::Gate,
                                              LoraTarget::Up,  LoraTarget::Down};
std::string_view name_of(LoraTarget target);  // "gate", "kv_a"
// Returns the target whose matrix ends a parameter's name ("attn.wq"), or nullopt. A target may
// have two matrices, each with an adapter of its own.
std::optional<LoraTarget> lora_target_of(std::string_view weight);

// A set of them.
class LoraTargets {
 public:
  void add(LoraTarget target) { bits_ = uint16_t(bits_ | 1u << unsigned(target)); }
  bool contains(LoraTarget target) const { return (bits_ >> unsigned(target) & 1u) != 0; }
  bool empty() const { return bits_ == 0; }
  friend bool operator==(const LoraTargets&, const LoraTargets&) = default;

 private:
  uint16_t bits_ = 0;
};

// "q,v", with spaces or without. The error says what is no name of a matrix.
Result<LoraTargets> parse_lora_targets(std::string_view names);
// "q,k,v"
std::string to_string(const LoraTargets& targets);

}  // namespace trireme
