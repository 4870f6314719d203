#include "train/run_state.h"

#include <fmt/format.h>

namespace trireme {
namespace {

TensorRef master_of(const Engine& engine, const std::string& name) {
  const TensorRef master = engine.optimizer_state().find("master/" + name);
  return master ? master : engine.params().at(name);
}

TensorRequest request_of(const std::string& name, const ParamSpec& param, const TensorRef& out) {
  return {name, param.shape, out.dtype, Slice::whole(param.shape), out.data};
}

const char* const kMoments[] = {"exp_avg/", "exp_avg_sq/"};

}  // namespace

std::vector<TensorPiece> checkpoint_pieces(const RunPlan& plan, const Engine& engine) {
  std::vector<TensorPiece> pieces;
  const auto add = [&](const std::string& name, const ParamSpec& param, const TensorRef& tensor) {
    pieces.push_back({name, param.shape, tensor.dtype, Slice::whole(param.shape), tensor.data});
  };
  for (const ParamSpec& param : plan.params) add(param.name, param, master_of(engine, param.name));
  for (const char* moment : kMoments) {
    for (const ParamSpec& param : plan.params) {
      const TensorRef tensor = engine.optimizer_state().find(moment + param.name);
      if (tensor) add(moment + param.name, param, tensor);
    }
  }
  return pieces;
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
  for (const ParamSpec& param : plan.params) {
    const TensorRef master = master_of(engine, param.name);
    requests.push_back(request_of(param.name, param, master));
    const TensorRef tensor = engine.params().at(param.name);
    if (tensor.data != master.data) requests.push_back(request_of(param.name, param, tensor));
    for (const char* moment : kMoments) {
      const TensorRef state = engine.optimizer_state().find(moment + param.name);
      if (state) requests.push_back(request_of(moment + param.name, param, state));
    }
  }
  TRIREME_TRY_DONE(checkpoint.read(requests, {.num_threads = plan.num_threads}));
  const auto scalar = [&](const char* name) {
    const auto found = info.optimizer_scalars.find(name);
    return found == info.optimizer_scalars.end() ? 0.0 : found->second;
  };
  return TrainPosition{info.step, uint64_t(info.next_sample), info.tokens_seen,
                       int64_t(scalar("num_updates")), int64_t(scalar("skipped_steps"))};
}

Status load_params(const Checkpoint& checkpoint, const std::vector<ParamSpec>& params,
                   const Frame& frame, int num_threads) {
  std::vector<TensorRequest> requests;
  for (const ParamSpec& param : params) {
    requests.push_back(request_of(param.name, param, frame.at(param.name)));
  }
  return checkpoint.read(requests, {.num_threads = num_threads});
}

}  // namespace trireme
