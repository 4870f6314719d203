#include "memory/bucket.h"

#include <algorithm>

#include "base/check.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

int64_t num_blocks(const Bucket& bucket) {
  int64_t blocks = 0;
  for (const BucketTensor& tensor : bucket.tensors) blocks += tensor.blocks;
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
    const BucketTensor& tensor = bucket.tensors[border.tensor];
    if (block >= tensor.blocks) {
      block -= tensor.blocks;
      continue;
    }
    if (tensor.is_whole) {
      if (block > 0 && bucket.rounds_up) ++border.tensor;
      return border;
    }
    border.first = block * num_norm_chunks(tensor.num_elements) / tensor.blocks * kNormChunk;
    return border;
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
  const TableRange grads = bucket.grads();
  if (grads.count > 0) shard.grads = range(&BucketTensor::grad_begin, grads.end());
  const TableRange params = bucket.params();
  if (params.count > 0) shard.params = range(&BucketTensor::param_begin, params.end());
  return shard;
}

bool is_trained(const BucketTensor& tensor) { return tensor.grad_begin >= 0; }

// A parameter, or the second use of a tied one.
BucketTensor bucket_tensor(const std::string& name, const StageTables& tables) {
  BucketTensor tensor{.name = name};
  const auto place = [&](const TensorTable& table, int64_t& begin) {
    if (!table.contains(name)) return;
    const TensorSpec& found = table.at(name);
    tensor.num_elements = found.shape.num_elements();
    begin = found.offset / size_of(found.dtype);
  };
  place(tables.params, tensor.param_begin);
  place(tables.grads, tensor.grad_begin);
  tensor.blocks = num_norm_chunks(tensor.num_elements);
  return tensor;
}

}  // namespace

int num_units(const StageSpec& stage) {
  return int(stage.num_layers) + (stage.has_embedding ? 1 : 0) + (stage.has_head ? 1 : 0);
}

TableRange Bucket::grads() const {
  if (tensors.front().grad_begin < 0) return {};
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

std::vector<int64_t> numbers_of(const Bucket& bucket) {
  std::vector<int64_t> numbers = {bucket.is_of_experts, bucket.rounds_up, bucket.params().count,
                                  bucket.grads().count};
  for (const BucketTensor& tensor : bucket.tensors) {
    numbers.insert(numbers.end(), {tensor.num_elements, tensor.blocks, tensor.is_whole});
  }
  return numbers;
}

std::vector<UnitGroup> unit_groups(const StageSpec& stage, const std::vector<ParamSpec>& params,
                                   DType grad, bool has_second_use, int64_t least_bytes) {
  std::vector<int64_t> bytes(size_t(num_units(stage)), 0);
  for (const ParamSpec& param : params) {
    const int64_t of_param = param.shape.num_elements() * size_of(grad);
    bytes[size_t(param.unit)] += of_param;
    if (has_second_use && param.is_table) bytes.back() += of_param;
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
  const auto add = [&](BucketTensor tensor, int unit, bool is_table, bool is_of_expert) {
    const int group = first_unit_of[size_t(unit)];
    const bool begins = buckets.empty() || buckets.back().unit != group || previous_is_table ||
                        is_table || buckets.back().is_of_experts != is_of_expert ||
                        is_trained(buckets.back().tensors.back()) != is_trained(tensor);
    if (begins) buckets.push_back({group, is_of_expert, {}});
    buckets.back().tensors.push_back(std::move(tensor));
    previous_is_table = is_table;
  };
  for (const ParamSpec& param : params) {
    add(bucket_tensor(param.name, tables), param.unit, param.is_table, param.expert >= 0);
  }
  // Behind the gradients of all parameters stands that of the second use of a tied one.
  for (const TensorSpec& grad : tables.grads.tensors()) {
    if (tables.params.contains(grad.name)) continue;
    add(bucket_tensor(grad.name, tables), num_units(stage) - 1, true, false);
  }
  for (size_t i = 1; i < buckets.size(); ++i) {
    TRIREME_CHECK(buckets[i - 1].unit <= buckets[i].unit, "tables list units in order");
  }
  return buckets;
}

}  // namespace trireme
