#include "train/run_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/gather_text.h"

namespace trireme {
namespace {

// A part of what this rank owns as a slice of the whole parameter.
struct OwnedSlice {
  Slice slice;
  int64_t offset = 0;  // in what is owned
};

// Rows that are whole in the parameter are one range of it; of a box of columns, the first and the
// last row may be cut.
std::vector<OwnedSlice> slices_of(const OwnedTensors& owned) {
  const ParamLayout& layout = *owned.layout;
  if (owned.count == layout.global.num_elements()) return {{Slice::whole(layout.global), 0}};
  const bool is_matrix = layout.global.rank() == 2;
  const int64_t row = is_matrix ? layout.extent[1] : 1;
  if (!is_matrix || row == layout.global[1]) {
    return {{Slice::range(layout.begin[0] * row + owned.first, owned.count), 0}};
  }
  std::vector<OwnedSlice> slices;
  const auto add = [&](int64_t element, Shape extent) {
    const Shape begin{layout.begin[0] + element / row, layout.begin[1] + element % row};
    slices.push_back({Slice::box(begin, extent), element - owned.first});
  };
  int64_t element = owned.first;
  const int64_t end = owned.first + owned.count;
  if (element % row != 0) {
    const int64_t count = std::min(end, element / row * row + row) - element;
    add(element, Shape{1, count});
    element += count;
  }
  const int64_t whole_rows = (end - element) / row;
  if (whole_rows > 0) add(element, Shape{whole_rows, row});
  element += whole_rows * row;
  if (element < end) add(element, Shape{1, end - element});
  return slices;
}

void* at(const TensorRef& tensor_N, int64_t offset) {
  return static_cast<char*>(tensor_N.data) + offset * size_of(tensor_N.dtype);
}

// Calls visit(name in the checkpoint, tensor) for the master and the moments.
template <typename Visit>
void for_each_state(const OwnedTensors& owned, Visit&& visit) {
  visit(owned.spec->name, owned.master_N);
  if (owned.exp_avg_N) visit("exp_avg/" + owned.spec->name, owned.exp_avg_N);
  if (owned.exp_avg_sq_N) visit("exp_avg_sq/" + owned.spec->name, owned.exp_avg_sq_N);
}

void add_requests(const std::string& name, const OwnedTensors& owned, const TensorRef& out_N,
                  std::vector<TensorRequest>& requests) {
  for (const OwnedSlice& part : slices_of(owned)) {
    requests.push_back(
        {name, owned.layout->global, out_N.dtype, part.slice, at(out_N, part.offset)});
  }
}

// A rank's word to the others: its text, or why it has none.
constexpr char kFailed = '!';
constexpr char kDone = '.';
std::string word_of(const Result<std::string>& result) {
  return result.ok() ? kDone + *result : kFailed + result.error().message;
}

// All texts, or the first failure. Before it each rank has written as much as it owns, or one alone
// has moved folders: that takes what disks take.
Result<std::vector<std::string>> agree(Group& world, const Result<std::string>& own) {
  world.barrier_after_lone_work();
  std::vector<std::string> texts = gather_text(world, word_of(own));
  for (std::string& text : texts) {
    if (text[0] == kFailed) {
      return Error{own.ok() ? ErrorKind::Runtime : own.error().kind, text.substr(1)};
    }
    text.erase(0, 1);
  }
  return texts;
}

}  // namespace

std::vector<TensorPiece> checkpoint_pieces(const Engine& engine) {
  std::vector<TensorPiece> pieces;
  for (const OwnedTensors& owned : engine.owned()) {
    if (!owned.in_checkpoint) continue;
    for_each_state(owned, [&](const std::string& name, const TensorRef& tensor) {
      for (const OwnedSlice& part : slices_of(owned)) {
        pieces.push_back(
            {name, owned.layout->global, tensor.dtype, part.slice, at(tensor, part.offset)});
      }
    });
  }
  return pieces;
}

Result<std::string> save_run(Engine& engine, const std::string& root, const CheckpointInfo& info,
                             const std::vector<AttachedFile>& attached, int64_t keep) {
  Group& world = engine.world();
  const bool is_first = world.rank() == 0;
  const SaveOptions options{.keep = keep};
  TRIREME_TRY(folders, agree(world, is_first ? begin_checkpoint(root, info.step) : std::string()));
  const std::string& folder = folders.front();
  engine.verify_offload();
  const auto write = [&]() -> Result<std::string> {
    TRIREME_TRY(part, write_shards(folder, world.rank(), checkpoint_pieces(engine), options));
    return print_index_part(part);
  };
  const Result<std::vector<std::string>> parts = agree(world, write());
  if (!parts.ok()) {
    if (is_first) abandon_checkpoint(folder);
    return parts.error();
  }
  const auto commit = [&]() -> Result<std::string> {
    if (!is_first) return std::string();
    std::vector<IndexPart> index;
    for (const std::string& text : *parts) {
      TRIREME_TRY(part, parse_index_part(text));
      index.push_back(std::move(part));
    }
    return commit_checkpoint(folder, info, attached, index, options);
  };
  TRIREME_TRY(paths, agree(world, commit()));
  return paths.front();
}

CheckpointInfo checkpoint_info(const RunPlan& plan, const TrainPosition& position,
                               const std::string& data_identity) {
  CheckpointInfo info;
  info.step = position.step;
  info.next_sample = int64_t(position.next_sample);
  info.tokens_seen = position.tokens_seen;
  info.seed = plan.config.run.seed;
  info.data_identity = data_identity;
  info.optimizer = plan.config.optim.name;
  info.optimizer_scalars = {{"num_updates", double(position.num_updates)},
                            {"skipped_steps", double(position.skipped_steps)}};
  if (position.loss_scale.scale > 0.0) {
    info.optimizer_scalars["loss_scale"] = position.loss_scale.scale;
    info.optimizer_scalars["loss_scale_good_steps"] = double(position.loss_scale.good_steps);
  }
  return info;
}

Result<TrainPosition> restore(const Checkpoint& checkpoint, const RunPlan& plan, Engine& engine) {
  const CheckpointInfo& info = checkpoint.info();
  if (info.optimizer != plan.config.optim.name) {
    return Error{ErrorKind::Usage,
                 fmt::format("optim.name = \"{}\" but {} was written with \"{}\": its state does "
                             "not fit; keep the optimizer to resume",
                             plan.config.optim.name, checkpoint.folder(), info.optimizer)};
  }
  std::vector<TensorRequest> requests;
  for (const OwnedTensors& owned : engine.owned()) {
    for_each_state(owned, [&](const std::string& name, const TensorRef& tensor) {
      add_requests(name, owned, tensor, requests);
    });
    if (owned.param_N) add_requests(owned.spec->name, owned, owned.param_N, requests);
  }
  TRIREME_TRY_DONE(checkpoint.read(requests, {.num_threads = plan.num_threads}));
  engine.world().barrier_after_lone_work();
  engine.gather_params();
  const auto scalar = [&](const char* name) {
    const auto found = info.optimizer_scalars.find(name);
    return found == info.optimizer_scalars.end() ? 0.0 : found->second;
  };
  return TrainPosition{info.step,
                       uint64_t(info.next_sample),
                       info.tokens_seen,
                       int64_t(scalar("num_updates")),
                       int64_t(scalar("skipped_steps")),
                       {scalar("loss_scale"), int64_t(scalar("loss_scale_good_steps"))}};
}

Status load_params(const Checkpoint& checkpoint, const std::vector<ParamSpec>& params,
                   const Frame& frame, int num_threads) {
  std::vector<TensorRequest> requests;
  for (const ParamSpec& param : params) {
    const TensorRef tensor = frame.at(param.name);
    requests.push_back(
        {param.name, param.shape, tensor.dtype, Slice::whole(param.shape), tensor.data});
  }
  return checkpoint.read(requests, {.num_threads = num_threads});
}

}  // namespace trireme
