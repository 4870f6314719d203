#include "train/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/best_checkpoint.h"
#include "train/owned_slices.h"

namespace trireme {
namespace {

// Keys of CheckpointInfo::optimizer_scalars: the best validation, and the number of later ones.
constexpr const char* kBestStep = "best_validation_step";
constexpr const char* kBestLoss = "best_validation_loss";
constexpr const char* kSinceBest = "validations_since_best";
constexpr const char* kCleanStep = "clean_step";

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
  for (const OwnedSlice& part : slices_of(*owned.layout, owned.first, owned.count)) {
    requests.push_back(
        {name, owned.layout->global, out_N.dtype, part.slice, at(out_N, part.offset)});
  }
}

// A model that was imported for use alone has weights and no moments.
Status require_state(const Checkpoint& checkpoint, const std::vector<TensorRequest>& requests) {
  const auto is_moment = [](const std::string& name) { return name.starts_with("exp_avg/"); };
  const auto& tensors = checkpoint.index().contents.tensors;
  if (std::none_of(requests.begin(), requests.end(),
                   [&](const TensorRequest& request) { return is_moment(request.name); }) ||
      std::any_of(tensors.begin(), tensors.end(),
                  [&](const auto& tensor) { return is_moment(tensor.first); })) {
    return Done{};
  }
  return Error{ErrorKind::Usage, checkpoint.folder() +
                                     " has weights alone, and not the state of the optimizer that "
                                     "training needs: import the model with --trainable"};
}

}  // namespace

bool has_adapters(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.index().contents.tensors;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& tensor) { return tensor.first.ends_with(".lora_a"); });
}

std::vector<TensorPiece> checkpoint_pieces(const Engine& engine) {
  std::vector<TensorPiece> pieces;
  for (const OwnedTensors& owned : engine.owned()) {
    if (!owned.in_checkpoint) continue;
    for_each_state(owned, [&](const std::string& name, const TensorRef& tensor) {
      for (const OwnedSlice& part : slices_of(*owned.layout, owned.first, owned.count)) {
        pieces.push_back(
            {name, owned.layout->global, tensor.dtype, part.slice, at(tensor, part.offset)});
      }
    });
  }
  return pieces;
}

CheckpointInfo checkpoint_info(const RunPlan& plan, const TrainPosition& position,
                               const std::string& data_identity) {
  CheckpointInfo info;
  info.step = position.step;
  info.next_sample = int64_t(position.next_sample);
  info.tokens_seen = position.tokens_seen;
  info.left_out = position.left_out;
  info.seed = plan.config.run.seed;
  info.data_identity = data_identity;
  info.optimizer = name_of(plan.config.optim.name);
  info.optimizer_scalars = {{"num_updates", double(position.num_updates)},
                            {"skipped_steps", double(position.skipped_steps)}};
  if (position.clean_step) info.optimizer_scalars[kCleanStep] = double(*position.clean_step);
  if (position.loss_scale.scale > 0.0) {
    info.optimizer_scalars["loss_scale"] = position.loss_scale.scale;
    info.optimizer_scalars["loss_scale_good_steps"] = double(position.loss_scale.good_steps);
  }
  const auto put = [&](const Validation& validation, const char* step, const char* loss) {
    if (!validation.is_known() || !std::isfinite(validation.loss)) return;
    info.optimizer_scalars[step] = double(validation.step);
    info.optimizer_scalars[loss] = validation.loss;
  };
  put(position.last_validation, kValidationStep, kValidationLoss);
  put(position.best_validation, kBestStep, kBestLoss);
  if (position.best_validation.is_known()) {
    info.optimizer_scalars[kSinceBest] = double(position.validations_since_best);
  }
  return info;
}

std::vector<TensorRequest> restore_requests(const Engine& engine, bool has_adapters) {
  std::vector<TensorRequest> requests;
  for (const OwnedTensors& owned : engine.owned()) {
    if (owned.spec->is_adapter && !has_adapters) continue;
    for_each_state(owned, [&](const std::string& name, const TensorRef& tensor) {
      add_requests(name, owned, tensor, requests);
    });
    if (owned.param_N) add_requests(owned.spec->name, owned, owned.param_N, requests);
  }
  return requests;
}

Result<TrainPosition> restore(const Checkpoint& checkpoint, const RunPlan& plan, Engine& engine) {
  const CheckpointInfo& info = checkpoint.info();
  const auto scalar = [&](const char* name) {
    const auto found = info.optimizer_scalars.find(name);
    return found == info.optimizer_scalars.end() ? 0.0 : found->second;
  };
  // Adapters that the checkpoint lacks begin with their initial values. Everything else is frozen
  // then, so nothing is left of the optimizer's state.
  const bool begins_adapters = plan.model.has_adapters() && !has_adapters(checkpoint);
  if (begins_adapters) engine.init_params(plan.config.run.seed);
  // The initial state of an imported model is zero for every optimizer.
  const bool is_initial = info.step == 0 && scalar("num_updates") == 0.0;
  if (!is_initial && !begins_adapters && info.optimizer != name_of(plan.config.optim.name)) {
    return Error{ErrorKind::Usage,
                 fmt::format("optim.name = \"{}\" but {} was written with \"{}\": its state does "
                             "not fit; keep the optimizer to resume",
                             name_of(plan.config.optim.name), checkpoint.folder(), info.optimizer)};
  }
  const std::vector<TensorRequest> requests = restore_requests(engine, !begins_adapters);
  TRIREME_TRY_DONE(require_state(checkpoint, requests));
  TRIREME_TRY_DONE(checkpoint.read(
      requests, {.num_threads = plan.num_threads, .progress = &engine.world().progress()}));
  engine.world().monitored_barrier();
  engine.gather_params();
  const auto validation = [&](const char* step, const char* loss) {
    return info.optimizer_scalars.contains(step) ? Validation{int64_t(scalar(step)), scalar(loss)}
                                                 : Validation();
  };
  return TrainPosition{
      .step = info.step,
      .next_sample = uint64_t(info.next_sample),
      .tokens_seen = info.tokens_seen,
      .num_updates = begins_adapters ? 0 : int64_t(scalar("num_updates")),
      .skipped_steps = int64_t(scalar("skipped_steps")),
      .loss_scale = {scalar("loss_scale"), int64_t(scalar("loss_scale_good_steps"))},
      .last_validation = validation(kValidationStep, kValidationLoss),
      .best_validation = validation(kBestStep, kBestLoss),
      .validations_since_best = int64_t(scalar(kSinceBest)),
      .clean_step = info.optimizer_scalars.contains(kCleanStep)
                        ? std::optional<int64_t>(int64_t(scalar(kCleanStep)))
                        : std::nullopt,
      .left_out = info.left_out};
}

Status restore_params(const Checkpoint& checkpoint, const RunPlan& plan, Engine& engine) {
  std::vector<TensorRequest> requests;
  for (const OwnedTensors& owned : engine.owned()) {
    add_requests(owned.spec->name, owned, owned.master_N, requests);
    if (owned.param_N) add_requests(owned.spec->name, owned, owned.param_N, requests);
  }
  TRIREME_TRY_DONE(checkpoint.read(
      requests, {.num_threads = plan.num_threads, .progress = &engine.world().progress()}));
  engine.world().monitored_barrier();
  engine.gather_params();
  return Done{};
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
