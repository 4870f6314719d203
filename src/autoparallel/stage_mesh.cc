#include "autoparallel/stage_mesh.h"

#include <fmt/format.h>

#include "schema/degree_rules.h"

namespace trireme {

std::string_view name_of(Role role) {
  switch (role) {
    case Role::Data:
      return "data";
    case Role::Context:
      return "sequence";
    case Role::Tensor:
      return "tensor";
    case Role::SequenceTensor:
      return "tensor+sequence";
    case Role::Expert:
      return "expert";
    case Role::Whole:
      return "whole";
  }
  return "";
}

std::string to_string(const StageMesh& mesh) {
  if (mesh.dims[0].degree() == 1) return fmt::format("{} ranks", mesh.dims[1].degree());
  return fmt::format("{} x {} ranks", mesh.dims[0].degree(), mesh.dims[1].degree());
}

std::string to_string(const Roles& roles, const StageMesh& mesh) {
  std::string text;
  for (size_t d = 0; d < 2; ++d) {
    if (mesh.dims[d].degree() == 1) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(roles[d]), mesh.dims[d].degree());
  }
  return text.empty() ? "one rank" : text;
}

std::optional<StageShape> layout_of(const ModelSpec& model, const StageShape& base,
                                    const StageMesh& mesh, const Roles& roles) {
  StageShape shape = base;
  shape.tp = shape.cp = shape.ep = 1;
  shape.micro_sequences = mesh.sequences;
  shape.sequence_parallel = false;
  bool has_plain_tensor = false;
  for (size_t d = 0; d < 2; ++d) {
    const int degree = mesh.dims[d].degree();
    if (degree == 1) continue;
    switch (roles[d]) {
      case Role::Expert:
        shape.ep *= degree;
        [[fallthrough]];
      case Role::Data:
      case Role::Context:
        if (mesh.dims[d].rows == Role::Context) {
          shape.cp *= degree;
        } else {
          if (shape.micro_sequences % degree != 0) return std::nullopt;
          shape.micro_sequences /= degree;
        }
        break;
      case Role::Tensor:
        has_plain_tensor = true;
        shape.tp *= degree;
        break;
      case Role::SequenceTensor:
        shape.sequence_parallel = true;
        shape.tp *= degree;
        break;
      case Role::Whole:
        break;
    }
  }
  // Otherwise only a part of the tp ranks would cut the residual stream.
  if (has_plain_tensor && shape.sequence_parallel) return std::nullopt;
  const Mesh degrees{.tp = shape.tp, .cp = shape.cp, .ep = shape.ep};
  if (!check_degrees(model, degrees, shape.context_exchange).ok()) return std::nullopt;
  return shape;
}

std::vector<StageMesh> stage_meshes(int num_ranks, int64_t sequences) {
  std::vector<StageMesh> meshes;
  for (int outer = 1; outer <= num_ranks; ++outer) {
    if (num_ranks % outer != 0) continue;
    const int inner = num_ranks / outer;
    if (outer > 1 && inner == 1) continue;  // the same as one dim
    for (const Role outer_rows : {Role::Data, Role::Context}) {
      for (const Role inner_rows : {Role::Data, Role::Context}) {
        if (outer == 1 && outer_rows == Role::Context) continue;
        int64_t parts = 1;
        if (outer_rows == Role::Data) parts *= outer;
        if (inner_rows == Role::Data) parts *= inner;
        if (sequences % parts != 0) continue;
        const auto could_be_whole = [&](int degree, Role rows) {
          return rows == Role::Context && sequences % (parts * degree) == 0;
        };
        if (could_be_whole(outer, outer_rows) || could_be_whole(inner, inner_rows)) continue;
        meshes.push_back(
            {{MeshDim{{outer, inner}, outer_rows}, MeshDim{{inner, 1}, inner_rows}}, sequences});
      }
    }
  }
  return meshes;
}

}  // namespace trireme
