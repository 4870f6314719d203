#include "schema/mesh_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace trireme {
namespace {

std::optional<MeshAxis> axis_of(std::string_view name) {
  for (const MeshAxis axis : kUsualOrder) {
    if (name_of(axis) == name) return axis;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::Tp:
      return "tp";
    case MeshAxis::Cp:
      return "cp";
    case MeshAxis::Pp:
      return "pp";
    case MeshAxis::Dp:
      return "dp";
    case MeshAxis::Ep:
      return "ep";
  }
  return "?";
}

std::string to_string(const MeshOrder& order) {
  std::string text;
  for (const MeshAxis axis : order) {
    if (!text.empty()) text += ',';
    text += name_of(axis);
  }
  return text;
}

Result<MeshOrder> parse_mesh_order(std::string_view text) {
  MeshOrder order = {};
  size_t num_axes = 0;
  const auto end_of_axes = [&] { return order.begin() + ptrdiff_t(num_axes); };
  for (size_t begin = 0; begin <= text.size();) {
    const std::string_view name = text.substr(begin, text.find(',', begin) - begin);
    begin += name.size() + 1;
    if (name == "ep") return usage("names ep, whose ranks are those of cp and dp");
    const std::optional<MeshAxis> axis = axis_of(name);
    if (!axis) return usage(fmt::format("names the unknown axis \"{}\"", name.substr(0, 16)));
    if (std::find(order.begin(), end_of_axes(), *axis) != end_of_axes()) {
      return usage(fmt::format("names {} twice", name));
    }
    order[num_axes++] = *axis;
  }
  for (const MeshAxis axis : kUsualOrder) {
    if (std::find(order.begin(), end_of_axes(), axis) == end_of_axes()) {
      return usage(fmt::format("does not name {}", name_of(axis)));
    }
  }
  return order;
}

}  // namespace trireme
