#include "memory/bucket.h"

#include <algorithm>

#include "base/check.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

// The unit of a gradient. Behind the gradients of all parameters stands that of the second use of a
// tied one, which is the head's.
int unit_of_grad(const StageSpec& stage, const std::vector<ParamSpec>& params, size_t grad) {
  return grad < params.size() ? params[grad].unit : num_units(stage) - 1;
}

// Whether a gradient is one of the token table's.
bool is_of_table(const std::vector<ParamSpec>& params, size_t grad) {
  return grad >= params.size() || params[grad].is_table;
}

int64_t num_blocks(const Bucket& bucket) {
  int64_t blocks = 0;
  for (const BucketTensor& tensor : bucket.tensors) blocks += num_norm_chunks(tensor.num_elements);
  return blocks;
}

// A border between shards: before element `first` of a tensor, or at the bucket's end.
struct Border {
  size_t tensor = 0;
  int64_t first = 0;
};

Border border_before(const Bucket& bucket, int64_t block) {
  Border border;
  for (; border.tensor < bucket.tensors.size(); ++border.tensor) {
    const int64_t blocks = num_norm_chunks(bucket.tensors[border.tensor].num_elements);
    if (block < blocks) {
      border.first = block * kNormChunk;
      return border;
    }
    block -= blocks;
  }
  return border;
}

struct Borders {
  Border from, to;
};

Borders borders_of(const Bucket& bucket, int degree, int index) {
  const int64_t blocks = num_blocks(bucket);
  return {border_before(bucket, blocks * std::min(index, degree) / degree),
          border_before(bucket, blocks * std::min(index + 1, degree) / degree)};
}

Shard ranges_of(const Bucket& bucket, const Borders& borders) {
  const auto place = [&](const Border& border, int64_t BucketTensor::*begin, int64_t end) {
    if (border.tensor == bucket.tensors.size()) return end;
    return bucket.tensors[border.tensor].*begin + border.first;
  };
  const auto range = [&](int64_t BucketTensor::*begin, int64_t end) {
    const int64_t first = place(borders.from, begin, end);
    return TableRange{first, place(borders.to, begin, end) - first};
  };
  Shard shard;
  shard.grads = range(&BucketTensor::grad_begin, bucket.grads().end());
  const TableRange params = bucket.params();
  if (params.count > 0) shard.params = range(&BucketTensor::param_begin, params.end());
  return shard;
}

}  // namespace

int num_units(const StageSpec& stage) {
  return int(stage.num_layers) + (stage.has_embedding ? 1 : 0) + (stage.has_head ? 1 : 0);
}

TableRange Bucket::grads() const {
  const BucketTensor& last = tensors.back();
  const int64_t begin = tensors.front().grad_begin;
  return {begin, last.grad_begin + last.num_elements - begin};
}

TableRange Bucket::params() const {
  if (tensors.front().param_begin < 0) return {};
  const BucketTensor& last = tensors.back();
  const int64_t begin = tensors.front().param_begin;
  return {begin, last.param_begin + last.num_elements - begin};
}

Shard shard_ranges(const Bucket& bucket, int degree, int index) {
  return ranges_of(bucket, borders_of(bucket, degree, index));
}

Shard shard_of(const Bucket& bucket, int degree, int index) {
  const auto [from, to] = borders_of(bucket, degree, index);
  Shard shard = ranges_of(bucket, {from, to});
  for (size_t i = from.tensor; i <= to.tensor && i < bucket.tensors.size(); ++i) {
    const BucketTensor& tensor = bucket.tensors[i];
    const int64_t first = i == from.tensor ? from.first : 0;
    const int64_t end = i == to.tensor ? to.first : tensor.num_elements;
    if (end > first) shard.pieces.push_back({tensor.name, first, end - first});
  }
  return shard;
}

std::vector<UnitGroup> unit_groups(const StageSpec& stage, const std::vector<ParamSpec>& params,
                                   const TensorTable& grads, int64_t least_bytes) {
  std::vector<int64_t> bytes(size_t(num_units(stage)), 0);
  for (size_t i = 0; i < grads.tensors().size(); ++i) {
    bytes[size_t(unit_of_grad(stage, params, i))] += grads.tensors()[i].bytes();
  }
  const bool first_is_apart = stage.has_embedding && stage.has_head;
  std::vector<UnitGroup> groups;
  int64_t in_group = 0;
  for (int unit = 0; unit < int(bytes.size()); ++unit) {
    const bool begins = groups.empty() || in_group >= least_bytes || (unit == 1 && first_is_apart);
    if (begins) {
      groups.push_back({unit, 0});
      in_group = 0;
    }
    ++groups.back().num_units;
    in_group += bytes[size_t(unit)];
  }
  const bool may_join = groups.size() > 2 || (groups.size() == 2 && !first_is_apart);
  if (may_join && in_group < least_bytes) {
    const int count = groups.back().num_units;
    groups.pop_back();
    groups.back().num_units += count;
  }
  return groups;
}

std::vector<Bucket> buckets_of(const StageSpec& stage, const std::vector<ParamSpec>& params,
                               const StageTables& tables, const std::vector<UnitGroup>& groups) {
  std::vector<int> first_unit_of;  // [unit]
  for (const UnitGroup& group : groups) {
    first_unit_of.insert(first_unit_of.end(), size_t(group.num_units), group.first_unit);
  }
  std::vector<Bucket> buckets;
  bool previous_is_table = false;
  const std::vector<TensorSpec>& grads = tables.grads.tensors();
  for (size_t i = 0; i < grads.size(); ++i) {
    const TensorSpec& grad = grads[i];
    const bool is_of_expert = i < params.size() && params[i].expert >= 0;
    const int unit = first_unit_of[size_t(unit_of_grad(stage, params, i))];
    const bool begins = buckets.empty() || buckets.back().unit != unit || previous_is_table ||
                        is_of_table(params, i) || buckets.back().is_of_experts != is_of_expert;
    if (begins) buckets.push_back({unit, is_of_expert, {}});
    BucketTensor tensor{grad.name, grad.shape.num_elements(), grad.offset / size_of(grad.dtype)};
    if (tables.params.contains(grad.name)) {
      const TensorSpec& param = tables.params.at(grad.name);
      tensor.param_begin = param.offset / size_of(param.dtype);
    }
    buckets.back().tensors.push_back(std::move(tensor));
    previous_is_table = is_of_table(params, i);
  }
  for (size_t i = 1; i < buckets.size(); ++i) {
    TRIREME_CHECK(buckets[i - 1].unit <= buckets[i].unit, "tables list units in order");
  }
  return buckets;
}

}  // namespace trireme
