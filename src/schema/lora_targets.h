#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

// The matrices of a layer that may have an adapter (LoRA, Hu et al. 2021), as users name them in
// model.lora_targets.
enum class LoraTarget : uint8_t { Q, K, V, O, Gate, Up, Down };
inline constexpr LoraTarget kLoraTargets[] = {LoraTarget::Q,   LoraTarget::K,    LoraTarget::V,
                                              LoraTarget::O,   LoraTarget::Gate, LoraTarget::Up,
                                              LoraTarget::Down};
std::string_view name_of(LoraTarget target);  // "gate"
// Our name of the matrix inside its block: "wq", "w_gate".
std::string_view matrix_of(LoraTarget target);
// Returns the target whose matrix is the last part of a parameter's name ("attn.wq"), or nullopt.
std::optional<LoraTarget> lora_target_of(std::string_view weight);

// A set of them.
class LoraTargets {
 public:
  void add(LoraTarget target) { bits_ = uint8_t(bits_ | 1u << unsigned(target)); }
  bool contains(LoraTarget target) const { return (bits_ >> unsigned(target) & 1u) != 0; }
  bool empty() const { return bits_ == 0; }
  friend bool operator==(const LoraTargets&, const LoraTargets&) = default;

 private:
  uint8_t bits_ = 0;
};

// "q,v", with spaces or without. The error says what is no name of a matrix.
Result<LoraTargets> parse_lora_targets(std::string_view names);
// "q,k,v"
std::string to_string(const LoraTargets& targets);

}  // namespace trireme
