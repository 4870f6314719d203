#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/mesh_groups.h"
#include "compile/run_plan.h"
#include "device/core_binding.h"
#include "device/turns.h"
#include "optim/loss_scale.h"
#include "runtime/executor.h"
#include "train/noise_scale.h"

namespace trireme {

// Loss of one validation pass.
struct EvalResult {
  double loss_sum = 0.0;
  int64_t valid_tokens = 0;
  int64_t num_hits = 0;  // valid tokens whose target has the largest logit (top-1)
  double mean() const { return valid_tokens > 0 ? loss_sum / double(valid_tokens) : 0.0; }
};

// The part of a parameter, and of its optimizer state, that this rank owns. The state is empty if
// the optimizer has none.
struct OwnedTensors {
  const ParamSpec* spec = nullptr;
  const ParamLayout* layout = nullptr;  // position of this tp rank's part in the whole parameter
  int64_t first = 0;                    // first element, in the flattened tensor of the tp rank
  int64_t count = 0;
  TensorRef master_N, exp_avg_N, exp_avg_sq_N;
  TensorRef param_N;           // absent if the parameter is its own master
  TensorRef grad_N;            // absent if never computed; read only inside Engine::read_grads
  bool in_checkpoint = false;  // true on the one rank that writes it to checkpoints
};

// One rank, ready to run: threads, planned memory, layers, optimizer and executor. The constructor
// allocates everything; steps allocate nothing. Borrows plan, world, kernels and source. All ranks
// of the world call its functions in the same order.
class Engine {
 public:
  // `folder` is where memory.offload keeps its file if the configuration names no folder; "" means
  // the folder of temporary files.
  Engine(const RunPlan& plan, World& world, const KernelTable& kernels, const TokenSource& source,
         const std::string& folder = {});
  // Executes `rank` instead of the plan's RankPlan for this position.
  Engine(const RunPlan& plan, RankPlan rank, World& world, const KernelTable& kernels,
         const TokenSource& source, const std::string& folder = {});

  void init_params(uint64_t seed);
  // Call it after writing the owned parts of parameters: it fills the copies that layers read.
  void gather_params();
  // `stop` says that this rank was asked to stop; the result says whether any rank was.
  // `next_sample` is the first sample of the next step, if that step follows at once
  // (Executor::run_step).
  StepResult step(uint64_t first_sample, double lr, bool stop = false,
                  std::optional<uint64_t> next_sample = std::nullopt);
  // The norm of the gradient of one global micro-batch of the step that begins with `first_sample`.
  // Costs a step, and changes no parameter and no state of training. The step itself comes next, or
  // anything else. On all ranks.
  GradNorm measure_gradient(uint64_t first_sample, int64_t microbatch);
  // The losses and the gradient of the step that begins with `first_sample`, with the bits that the
  // step will have. Costs a step; nothing is updated. read_grads may read the gradient. On all
  // ranks.
  StepResult compute_gradient(uint64_t first_sample);
  // The same, but this rank computes the micro-batches of the rank that differs from it only in dp
  // and has index `replica` there. All ranks shift their own index by the same number.
  StepResult compute_gradient_of(uint64_t first_sample, int replica);
  // See DataParallel::hash_addends.
  void hash_addends(std::vector<uint64_t>* hashes) { data_parallel_->hash_addends(hashes); }
  // See Executor::settle.
  void settle() { executor_->settle(); }
  // Returns on all ranks the mean loss over the first num_sequences samples of `source`, without
  // dropout.
  EvalResult evaluate(const TokenSource& source, int64_t num_sequences);

  // Whether the ops of the steps from now on are timed; some 50 ns a call.
  void time_ops(bool on);
  // Times of the ops in the timed steps together, in the order of predict_ops (predict/op_times.h).
  std::vector<OpSeconds> op_seconds() const;

  const std::vector<OwnedTensors>& owned() const { return owned_; }
  // The parameters of a chunk as layers read them, if all are stored from step to step.
  std::optional<Frame> stored_params(int chunk) const;
  // The parameters of the whole model in the compute dtype, if this rank holds them all.
  std::optional<Frame> whole_params() const;
  // Gradients of a chunk in the last step (slot 0), as sums over tokens.
  Frame grads(int chunk) const;
  // The factor by which grads() are multiplied, a power of two.
  float loss_scale_of_grads() const { return ctx_.loss_scale; }
  // Calls `read` between two steps, while the gradients of the last step may be read.
  void read_grads(const std::function<void()>& read);

  const RankPlan& rank_plan() const { return rank_; }
  const Mesh& mesh() const { return plan_.mesh; }
  Optimizer& optimizer() { return optimizer_; }
  LossScale& loss_scale() { return loss_scale_; }
  const Executor& executor() const { return *executor_; }
  Group& world() { return world_.group(); }
  const std::vector<int>& node_of() const { return world_.node_of(); }
  Ctx& ctx() { return ctx_; }
  int64_t peak_bytes() const { return memory_.peak_bytes(); }
  // The planned buffer for a checkpoint that is written beside training; empty: none.
  std::span<std::byte> snapshot_memory() const;
  // The planned buffer for the exchange of checkpoints in memory; empty: none are kept.
  std::span<std::byte> move_memory() const;
  // See Executor::call_before_update.
  void call_before_update(const void* owner, std::function<void()> function) {
    executor_->call_before_update(owner, std::move(function));
  }
  // See Executor::set_update_note.
  void set_update_note(Executor::UpdateNote note) { executor_->set_update_note(std::move(note)); }
  // See Optimizer::bind_copies. The tensors of owned() move, too.
  void bind_copies(std::span<HashedCopy> copies, std::span<std::byte> home);
  void release_copies();
  // Call it before saving. Throws IoError if a file that holds part of the owned state is damaged.
  void verify_offload() const { offload_.verify(); }
  // Traffic of this rank so far and the time that it waited for it, by axis.
  std::vector<std::pair<std::string, Traffic>> traffic() const;
  std::vector<std::pair<std::string, int64_t>> sent_bytes() const;
  // Scratch bytes of the announced collectives: transfers of layers over tp, gradients, parameters,
  // tied tables and the norm.
  int64_t message_scratch_bytes() const;

 private:
  std::span<std::byte> bytes_of(int region) const;  // of the memory plan; -1: empty
  void bind_owned();
  StepResult compute_gradient(uint64_t first_sample, std::optional<int64_t> microbatch);
  void* params(int chunk) const;  // as stored: in memory or in a mapped file

  const RunPlan& plan_;
  World& world_;
  MeshGroups groups_;
  const RankPlan rank_;
  const std::unique_ptr<Group> batch_;  // StageShape::batch_ranks
  std::unique_ptr<Group> shards_, replicas_, expert_shards_, expert_replicas_, mirror_;
  std::optional<TiedSum> tied_;
  CoreBinding binding_;  // must come before the threads, which inherit the binding
  ThreadTeam team_;
  std::optional<Turns> turns_;           // absent: no actions run beside each other
  std::unique_ptr<SharedMemory> arena_;  // ranks of this host add up gradients in each other's
  RankMemory memory_;
  Offload offload_;
  Stream stream_;
  Ctx ctx_;
  std::vector<Stage> stages_;    // [chunk]
  std::vector<OpClock> clocks_;  // [chunk]
  bool times_ops_ = false;
  Optimizer optimizer_;
  LossScale loss_scale_;
  std::vector<OwnedTensors> owned_;
  std::vector<OwnedTensors> before_moves_;  // owned_ as it was before bind_copies
  std::unique_ptr<GradAddends> tensor_addends_, context_addends_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace trireme
