#include "train/run_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/gather_text.h"

namespace trireme {
namespace {

// A part of an owned tensor as a slice of the whole parameter.
struct OwnedSlice {
  Slice slice;
  int64_t offset = 0;  // in the owned tensor
};

// If the owned rows are whole rows of the parameter, they are one range of it. If the tp rank owns
// a box of columns, the first and the last row may be partial.
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

// Prefix of a rank's result after its part of a save: a text, or an error with its kind, so that
// every rank fails with the same error and exit code.
constexpr char kDone = '.';
std::string message_of(const Result<std::string>& result) {
  if (result.ok()) return kDone + *result;
  return static_cast<char>('0' + int(result.error().kind)) + result.error().message;
}

// Exchanges the ranks' results and returns all texts, or the error of the first rank that failed.
// The result is the same on every rank. The ranks wrote files before this call, and each took as
// long as its disk needed.
Result<std::vector<std::string>> agree(Group& world, const Result<std::string>& own) {
  world.monitored_barrier();
  std::vector<std::string> texts = gather_text(world, message_of(own));
  for (std::string& text : texts) {
    const char kind = text[0];
    text.erase(0, 1);
    if (kind != kDone) return Error{ErrorKind(kind - '0'), std::move(text)};
  }
  return texts;
}

// The temporary folder of a save. Rank 0 removes it unless the save has succeeded, however it
// failed and on whichever rank.
class TemporaryFolder {
 public:
  TemporaryFolder(bool is_owner, std::string path) : is_owner_(is_owner), path_(std::move(path)) {}
  ~TemporaryFolder() {
    if (is_owner_) abandon_checkpoint(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  void keep() { is_owner_ = false; }

 private:
  bool is_owner_;
  std::string path_;
};

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

Result<std::string> save_run(Engine& engine, const Result<std::string>& root,
                             const CheckpointInfo& info,
                             const std::vector<AttachedFile>& attached) {
  Group& world = engine.world();
  const bool is_first = world.rank() == 0;
  const SaveOptions options{.keep = 0, .progress = &world.progress()};
  const auto begin = [&]() -> Result<std::string> {
    if (!is_first) return std::string();
    if (!root.ok()) return root.error();
    return begin_checkpoint(*root, info.step, options);
  };
  const Result<std::string> begun = begin();
  TemporaryFolder temporary(is_first && begun.ok(), begun.ok() ? *begun : "");
  TRIREME_TRY(folders, agree(world, begun));
  const std::string& folder = folders.front();
  engine.verify_offload();
  const auto write = [&]() -> Result<std::string> {
    TRIREME_TRY(part, write_shards(folder, world.rank(), checkpoint_pieces(engine), options));
    return print_index_part(part);
  };
  TRIREME_TRY(parts, agree(world, write()));
  const auto commit = [&]() -> Result<std::string> {
    if (!is_first) return std::string();
    std::vector<IndexPart> index;
    for (const std::string& text : parts) {
      TRIREME_TRY(part, parse_index_part(text));
      index.push_back(std::move(part));
    }
    return commit_checkpoint(folder, info, attached, index, options);
  };
  TRIREME_TRY(paths, agree(world, commit()));
  temporary.keep();
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
  info.optimizer = name_of(plan.config.optim.name);
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
  if (info.optimizer != name_of(plan.config.optim.name)) {
    return Error{ErrorKind::Usage,
                 fmt::format("optim.name = \"{}\" but {} was written with \"{}\": its state does "
                             "not fit; keep the optimizer to resume",
                             name_of(plan.config.optim.name), checkpoint.folder(), info.optimizer)};
  }
  std::vector<TensorRequest> requests;
  for (const OwnedTensors& owned : engine.owned()) {
    for_each_state(owned, [&](const std::string& name, const TensorRef& tensor) {
      add_requests(name, owned, tensor, requests);
    });
    if (owned.param_N) add_requests(owned.spec->name, owned, owned.param_N, requests);
  }
  TRIREME_TRY_DONE(checkpoint.read(
      requests, {.num_threads = plan.num_threads, .progress = &engine.world().progress()}));
  engine.world().monitored_barrier();
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
