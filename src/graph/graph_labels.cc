#include "graph/graph_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/axis_part.h"
#include "graph/op_placement.h"

namespace trireme {
namespace {

constexpr int64_t kSoftmaxNumbers = 3;  // maximum, sum and target logit

bool is_shard(const Placement& placement, int dim) { return placement == Placement::shard(dim); }

// The dim of a value that shard(1) over tp or cp parts: the first column axis that tp can share.
size_t shared_column(const Value& value) {
  const auto columns = value.dims.begin() + std::ptrdiff_t(value.num_row_dims);
  const auto shared = std::find_if(columns, value.dims.end(), is_cut);
  return size_t(shared - value.dims.begin());
}

std::string joined(const std::vector<std::string>& texts, const char* between) {
  std::string text;
  for (const std::string& each : texts) text += (text.empty() ? "" : between) + each;
  return text;
}

}  // namespace

GraphLabels::GraphLabels(const Graph& graph, const std::vector<ValuePlacement>& placements,
                         const ModelSpec& model, const StageShape& layout)
    : graph_(graph),
      placements_(placements),
      model_(model),
      layout_(layout),
      whole_(shard_model(model, {})),
      shard_(placements.empty() ? whole_ : shard_model(model, layout)) {}

const ValuePlacement* GraphLabels::placement_at(ValueId value) const {
  return placements_.empty() ? nullptr : &placements_[size_t(value)];
}

GraphLabels::Extent GraphLabels::visits(const ValuePlacement* placement) const {
  const int64_t tokens = layout_.micro_sequences * model_.seq_len;
  const int64_t total = whole_.sent_rows(tokens);
  if (placement == nullptr) return {total, total, true};
  const int64_t local = is_shard(placement->cp, 0) ? tokens / layout_.cp : tokens;
  const bool by_expert = is_shard(placement->ep, 1);
  const int64_t count = by_expert ? shard_.held_rows(local) : shard_.sent_rows(local);
  // The rows that experts are given come from several ranks: there is no whole to compare with.
  return {count, by_expert ? count : total, true};
}

GraphLabels::Extent GraphLabels::extent_of(const Value& value, size_t dim,
                                           const ValuePlacement* placement) const {
  const auto whole = [](int64_t total) { return Extent{total, total}; };
  const Dim& counted = value.dims[dim];
  const bool is_cut_by_columns = placement != nullptr && shared_column(value) == dim;
  switch (counted.axis) {
    case Axis::Sample:
    case Axis::Token: {
      Extent tokens = whole(layout_.micro_sequences * model_.seq_len);
      if (placement == nullptr) return tokens;
      if (is_shard(placement->cp, 0)) tokens.count /= layout_.cp;
      if (dim == 0 && is_shard(placement->tp, 0)) {
        tokens.count = balanced_count(tokens.count, layout_.tp, layout_.tp_rank);
      }
      return tokens;
    }
    case Axis::Visit:
      return visits(placement);
    case Axis::Sequence:
      return whole(layout_.micro_sequences);
    case Axis::Choice:
      return whole(model_.top_k);
    case Axis::SoftmaxPart: {
      const LayerSlices slices = LayerSlices::of(layout_);
      const bool is_part = placement != nullptr && is_shard(placement->tp, 0);
      return {kSoftmaxNumbers * (is_part ? slices.count : slices.all),
              kSoftmaxNumbers * slices.all};
    }
    default:
      break;
  }
  Extent extent = whole(counted.extent);
  if (counted.axis == Axis::Row && placement != nullptr && has_images(value) &&
      (is_shard(placement->tp, 1) || placement->tp.kind == Placement::Kind::Halo)) {
    extent.count = local_range(counted.extent, placement->tp, layout_.tp, layout_.tp_rank).count();
  }
  if (is_cut_by_columns && is_shard(placement->tp, 1)) {
    extent.count = part_of(counted, shard_).count;
  }
  if (is_cut_by_columns && is_shard(placement->cp, 1)) extent.count /= layout_.cp;
  return extent;
}

std::string GraphLabels::text_of(Axis axis, const Extent& extent) const {
  const std::string count =
      fmt::format("{}{}{}", name_of(axis), extent.is_limit ? " <= " : " ", extent.count);
  return extent.count == extent.total ? count : fmt::format("{} of {}", count, extent.total);
}

std::vector<std::string> GraphLabels::dims(ValueId id) const {
  const Value& value = graph_.values[size_t(id)];
  std::vector<std::string> texts;
  for (size_t dim = 0; dim < value.dims.size(); ++dim) {
    texts.push_back(text_of(value.dims[dim].axis, extent_of(value, dim, placement_at(id))));
  }
  return texts;
}

std::vector<std::string> GraphLabels::placement(ValueId value) const {
  std::vector<std::string> texts;
  if (placements_.empty()) return texts;
  for (const MeshAxis axis : kAxesInside) {
    texts.push_back(fmt::format("{} {}", name_of(axis), to_string(placement_at(value)->on(axis))));
  }
  return texts;
}

std::vector<std::string> GraphLabels::placement_over_ranks(ValueId value) const {
  const std::vector<std::string> all = placement(value);
  std::vector<std::string> texts;
  for (size_t i = 0; i < all.size(); ++i) {
    if (ranks_along(kAxesInside[i]) > 1) texts.push_back(all[i]);
  }
  return texts;
}

int GraphLabels::ranks_along(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::Tp:
      return layout_.tp;
    case MeshAxis::Cp:
      return layout_.cp;
    case MeshAxis::Dp:
      return layout_.batch_ranks;
    default:
      return layout_.ep;
  }
}

std::string GraphLabels::gathered_sums(const Op& op) const {
  std::vector<std::string> axes;
  for (const MeshAxis axis : {MeshAxis::Tp, MeshAxis::Dp}) {
    if (!gathers_sums(graph_, op, axis) || ranks_along(axis) == 1) continue;
    axes.emplace_back(name_of(axis));
  }
  return axes.empty() ? "" : "gathers sums over " + joined(axes, " and ");
}

bool GraphLabels::moves_nothing(const Op& op) const {
  return op.kind == OpKind::Redistribute && ranks_along(op.axis) == 1;
}

std::vector<ParamId> GraphLabels::held_params(const Op& op) const {
  std::vector<ParamId> held;
  for (const ParamId id : op.params) {
    const int64_t expert = graph_.params[size_t(id)].expert;
    const bool is_here =
        expert >= shard_.first_expert && expert < shard_.first_expert + shard_.held_experts;
    if (expert < 0 || is_here) held.push_back(id);
  }
  return held;
}

std::string GraphLabels::dims_text(const std::vector<Dim>& dims) const {
  std::vector<std::string> texts;
  for (const Dim& dim : dims) {
    const AxisPart part = part_of(dim, shard_);
    texts.push_back(text_of(dim.axis, {part.count, part.total}));
  }
  return joined(texts, " ");
}

std::string GraphLabels::param_dims(ParamId id) const {
  const Param& param = graph_.params[size_t(id)];
  const std::string rows = dims_text(param.rows);
  return param.is_matrix() ? rows + " x " + dims_text(param.columns) : rows;
}

std::string GraphLabels::param_shape(ParamId id) const {
  const Param& param = graph_.params[size_t(id)];
  const AxisPart rows = part_of(param.rows, shard_);
  std::string here = std::to_string(rows.count), all = std::to_string(rows.total);
  if (param.is_matrix()) {
    const AxisPart columns = part_of(param.columns, shard_);
    here += fmt::format(" x {}", columns.count);
    all += fmt::format(" x {}", columns.total);
  }
  return here == all ? here : here + " of " + all;
}

}  // namespace trireme
