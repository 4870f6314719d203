#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trireme {

enum class MeshAxis : uint8_t { Tp, Cp, Pp, Dp, Ep };

std::string_view name_of(MeshAxis axis);  // such as "tp"

// The axes by which the ranks of a mesh are numbered, innermost first: neighbouring ranks differ in
// the first one. Ep has no place in the order, because its ranks are those of cp and dp.
using MeshOrder = std::array<MeshAxis, 4>;
inline constexpr MeshOrder kUsualOrder = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Pp, MeshAxis::Dp};

// Returns text such as "tp,cp,pp,dp", the value of parallel.order.
std::string to_string(const MeshOrder& order);

// Reads such a text. The error says which axis is unknown, named twice or missing.
Result<MeshOrder> parse_mesh_order(std::string_view text);

}  // namespace trireme
