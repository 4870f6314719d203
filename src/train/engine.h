#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/mesh_groups.h"
#include "compile/run_plan.h"
#include "device/core_binding.h"
#include "optim/loss_scale.h"
#include "runtime/executor.h"

namespace trireme {

// Loss of a validation pass.
struct EvalResult {
  double loss_sum = 0.0;
  int64_t valid_tokens = 0;
  double mean() const { return valid_tokens > 0 ? loss_sum / double(valid_tokens) : 0.0; }
};

// What this rank holds of a parameter and its optimizer's state; empty where the optimizer has
// none.
struct OwnedTensors {
  const ParamSpec* spec = nullptr;
  const ParamLayout* layout =
      nullptr;        // where what the tensor-parallel rank holds lies in the whole
  int64_t first = 0;  // of what it holds, flattened
  int64_t count = 0;
  TensorRef master_N, exp_avg_N, exp_avg_sq_N;
  TensorRef param_N;           // absent: the parameter is its own master
  TensorRef grad_N;            // to be read inside Engine::read_grads
  bool in_checkpoint = false;  // this rank writes it; others hold the same
};

// One rank, ready to run: threads, planned memory, layers, optimizer and executor. Everything is
// allocated in the constructor; steps allocate nothing. Borrows plan, world, kernels and source.
// All ranks of the world call its functions in the same order.
class Engine {
 public:
  // `folder`: where memory.offload keeps its file if the configuration names none; "": that of
  // temporary files.
  Engine(const RunPlan& plan, World& world, const KernelTable& kernels, const TokenSource& source,
         const std::string& folder = {});
  // Executes `rank` in the place of what the plan has for this position.
  Engine(const RunPlan& plan, RankPlan rank, World& world, const KernelTable& kernels,
         const TokenSource& source, const std::string& folder = {});

  void init_params(uint64_t seed);
  // After the owned parts of parameters have been written: fills the copies that layers read.
  void gather_params();
  // `stop`: this rank was asked to stop; the result tells all whether any was.
  // `next_sample`: of the step that follows at once (Executor::run_step).
  StepResult step(uint64_t first_sample, double lr, bool stop = false,
                  std::optional<uint64_t> next_sample = std::nullopt);
  // Mean loss over the first num_sequences samples of `source`, without dropout; on all ranks.
  EvalResult evaluate(const TokenSource& source, int64_t num_sequences);

  const std::vector<OwnedTensors>& owned() const { return owned_; }
  // The parameters of the whole model in the compute dtype, where this rank has them.
  std::optional<Frame> whole_params() const;
  // Gradients of the last step (slot 0) of a chunk, as raw sums over tokens.
  Frame grads(int chunk) const;
  // Those carry it; powers of two.
  float loss_scale_of_grads() const { return ctx_.loss_scale; }
  // Between two steps: calls `read` while the gradients of the last one may be looked at.
  void read_grads(const std::function<void()>& read);

  const RankPlan& rank_plan() const { return rank_; }
  Optimizer& optimizer() { return optimizer_; }
  LossScale& loss_scale() { return loss_scale_; }
  const Executor& executor() const { return *executor_; }
  Group& world() { return world_.group(); }
  const std::vector<int>& node_of() const { return world_.node_of(); }
  Ctx& ctx() { return ctx_; }
  int64_t peak_bytes() const { return memory_.peak_bytes(); }
  // Before what is owned is saved: throws IoError where a file that holds part of it is damaged.
  void verify_offload() const { offload_.verify(); }
  // What this rank has sent so far and waited for, by axis.
  std::vector<std::pair<std::string, Traffic>> traffic() const;
  std::vector<std::pair<std::string, int64_t>> sent_bytes() const;
  // Of what is announced: moves of layers over tp, gradients, parameters, tied tables, the norm.
  int64_t message_scratch_bytes() const;

 private:
  void bind_owned();
  void* params(int chunk) const;  // as they are stored: in memory, or in the map of a file

  const RunPlan& plan_;
  World& world_;
  MeshGroups groups_;
  const RankPlan rank_;
  std::unique_ptr<Group> shards_, replicas_, expert_shards_, expert_replicas_, tied_, mirror_;
  CoreBinding binding_;  // before the threads that follow it
  ThreadTeam team_;
  RankMemory memory_;
  Offload offload_;
  Stream stream_;
  Ctx ctx_;
  std::vector<Stage> stages_;  // [chunk]
  Optimizer optimizer_;
  LossScale loss_scale_;
  std::vector<OwnedTensors> owned_;
  std::unique_ptr<GradAddends> tensor_addends_, context_addends_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace trireme
