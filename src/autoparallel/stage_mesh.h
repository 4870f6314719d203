#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/hardware.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"

namespace trireme {

// What the ranks along one dim of a stage's sub-mesh share out of an op. The rules of
// graph/op_placement.h say which of its tensors are parts then.
enum class Role : uint8_t {
  Data,            // whole sequences
  Context,         // a part of every sequence
  Tensor,          // heads, hidden units, rows of the vocabulary
  SequenceTensor,  // the same, and the tokens of the residual stream
  Expert,          // experts
  Whole,           // nothing: all ranks compute the same
};
inline constexpr Role kRoles[] = {Role::Data,           Role::Context, Role::Tensor,
                                  Role::SequenceTensor, Role::Expert,  Role::Whole};
std::string_view name_of(Role role);  // "data"

// One dim of a sub-mesh.
struct MeshDim {
  RankSpan span;           // of a group of ranks along it
  Role rows = Role::Data;  // or Context: the role by which ops share tokens out along it

  int degree() const { return int(span.count); }
  friend auto operator<=>(const MeshDim&, const MeshDim&) = default;
};

// The ranks of a stage as a grid of two dims, the outer one first. A dim may have one rank.
struct StageMesh {
  std::array<MeshDim, 2> dims;
  int64_t sequences = 1;  // of a micro-batch, over all ranks of the stage

  int num_ranks() const { return dims[0].degree() * dims[1].degree(); }
  friend auto operator<=>(const StageMesh&, const StageMesh&) = default;
};
std::string to_string(const StageMesh& mesh);  // "2 x 8 ranks"

// The role of an op on each dim.
using Roles = std::array<Role, 2>;
std::string to_string(const Roles& roles, const StageMesh& mesh);  // "data 2, tensor 8"

// Returns the layout of a rank of the mesh if all ops have these roles. Returns nullopt if the
// model cannot be shared out so: degrees do not divide it, or there are fewer sequences than ranks.
// The fields that no role sets are those of `base`.
std::optional<StageShape> layout_of(const ModelSpec& model, const StageShape& base,
                                    const StageMesh& mesh, const Roles& roles);

// Returns every grid of `num_ranks` neighbouring ranks for micro-batches of `sequences` sequences.
// A dim shares out whole sequences if there are enough of them, else parts of each sequence.
std::vector<StageMesh> stage_meshes(int num_ranks, int64_t sequences);

}  // namespace trireme
