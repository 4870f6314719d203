#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/box_elements.h"
#include "base/hash.h"
#include "base/hashed_copy.h"
#include "memory/chunk_tables.h"
#include "nn/ctx.h"
#include "nn/frame.h"
#include "optim/muon_update.h"
#include "optim/qk_clip.h"
#include "schema/norm_sum.h"
#include "schema/run_config.h"

namespace trireme {

// Inputs and outputs of Step.
struct StepInput {
  double lr = 0.0;
  double valid_tokens = 1.0;      // of the global batch; gradients are sums over them
  double squared_norm = 0.0;      // of these sums, over all parameters of the model
  double num_microbatches = 1.0;  // of the global batch, for statistics that are summed over them
  double loss_scale = 1.0;        // factor of the gradients
  bool measures_only = false;     // only the norm is wanted: nothing is updated
  // [layer][head] of the model: the largest attention logit of the step, for QK-clip; or empty.
  std::span<const float> largest_logits = {};
};
struct StepOutput {
  double grad_norm = 0.0;  // of the mean gradient, before clipping, without the loss scale
  bool skipped = false;    // a gradient was not finite, so nothing was updated
};

// The memory of a chunk's tensors.
struct OptimizerMemory {
  void* params = nullptr;          // null if they are in a file
  void* grads = nullptr;           // gradient slot 0
  void* optimizer = nullptr;       // the optimizer's table; null if it is in a file
  std::vector<void*> staged = {};  // in that case: [piece] its memory during the update
  void* newton_schulz = nullptr;   // newton_schulz_bytes() of memory; null if these are 0
  void* copies = nullptr;  // of everything updated, for attempt and settle; null: no attempts
};

// Norm, clipping and update of the parameters that a rank owns. It is bound once, and a step
// allocates nothing.
class Optimizer {
 public:
  // `seed` of the run: that of stochastic rounding.
  explicit Optimizer(const OptimConfig& config, NormSum norm_sum = NormSum::Chunks,
                     uint64_t seed = 0)
      : config_(config), norm_sum_(norm_sum), seed_(seed) {}

  // Scales queries and keys by OptimConfig::qk_clip after every update. Call it before add().
  void clip_logits_of(const ModelSpec& model) {
    if (!(config_.qk_clip > 0.0)) return;
    qk_clip_.emplace(config_.qk_clip, model);
    heads_ = model.heads;
  }
  // Adds the parameters of a chunk. Their memory must outlive the optimizer.
  void add(const ChunkTables& chunk, const OptimizerMemory& memory);
  // Announces to the tp group what an update gathers. Call it once, after all chunks were added.
  void reserve(Group& tp) const;

  // Adds the gradient of a tied table's use as head to that of its use as embedding, if this rank
  // sums both. Then adds this rank's part of the squared norm to the words of the model
  // ([num_norm_words], set to zero by the caller).
  void squared_norms(Ctx& ctx, std::span<int64_t> words) const;
  StepOutput update(Ctx& ctx, const StepInput& input);
  // Updates as if `partial` were the whole norm and nothing had to be clipped, and keeps copies of
  // what it changes. Does nothing if that part already shows that the gradient must be clipped or
  // is not finite.
  void attempt(Ctx& ctx, const StepInput& partial);
  // True if the attempt is the update that the whole norm requires. All ranks get the same answer.
  bool attempt_holds(const StepInput& input) const;
  // Makes the update that the whole norm requires: keeps the attempt, or rolls it back and updates
  // again.
  StepOutput settle(Ctx& ctx, const StepInput& input);
  int64_t num_rollbacks() const { return num_rollbacks_; }

  // Binds copies of parts of the parameters' state, or of other memory. They are borrowed. Call it
  // after all chunks were added. If `home` is not empty, state that is updated element by element
  // and that only the optimizer reads lies at the copies' offsets of it from now on; its content is
  // moved there, and so are the copies. Copies of what no update changes are marked as constant.
  void bind_copies(std::span<HashedCopy> copies, std::span<std::byte> home = {});
  // Moves the state back, and forgets the copies.
  void release_copies();
  // The tensor's new place, if its memory was moved.
  TensorRef moved(const TensorRef& tensor_N) const;
  // If the next call is update(), it also makes the bound copies of what it updates element by
  // element, while this is in registers or caches, and then calls `then`. State that lies in a home
  // is not changed there, but written to the target alone, if the target is another memory.
  void copy_next_update(std::span<std::byte> target, std::function<void()> then) {
    copy_target_ = target;
    copies_made_ = std::move(then);
  }

  // Updates one piece of a chunk's state, which was fetched from a file.
  void update_piece(Ctx& ctx, int chunk, int piece) const;

  // Updates applied so far, on which AdamW's bias corrections depend. It is part of a checkpoint.
  int64_t num_updates() const { return num_updates_; }
  void set_num_updates(int64_t count) { num_updates_ = count; }

 private:
  struct Param {
    TensorRef grad_N, second_use_N, master_N, exp_avg_N, exp_avg_sq_N;
    TensorRef param_N;  // absent: the parameter is its own master
    RngKey key;         // of stochastic rounding
    RngKey clip_key;    // of that after QK-clip
    BoxElements box;    // what the tensor-parallel rank holds of the parameter
    int64_t first = 0;  // of the tensors, in the box
    int64_t norm_word = -1;
    bool decay = false;
    double balance_rate = 0.0;  // above 0: balanced by this rate instead of trained
    double running_rate = 0.0;  // above 0: moved by this share towards a mean
    bool is_in_file = false;
    bool is_frozen = false;
    std::optional<MuonMatrix> muon;  // present: Muon updates it
    LogitSide logit_side = LogitSide::None;
    int64_t layer = 0;  // of the model, if it has a logit side
  };

  // Moves a router bias by its rate towards an even load. Its gradient counts the tokens of every
  // expert.
  void balance(Ctx& ctx, const Param& param) const;
  // Moves a running statistic towards its mean over the micro-batches, whose sum is the gradient.
  void run_towards_mean(Ctx& ctx, const Param& param) const;
  // Returns the gradient scale, or nullopt if the update is skipped.
  std::optional<double> grad_scale_of(const StepInput& input, StepOutput& output) const;
  void update_all(Ctx& ctx, const StepInput& input, double grad_scale);
  void clip_logits(Ctx& ctx, std::span<const float> largest_logits) const;
  void keep_copies(const ChunkTables& chunk, void* copies);
  // Copies parameters and state to the copies or back.
  void copy(Ctx& ctx, bool to_copies) const;

  // A part of a parameter whose updated state is copied.
  struct CopiedPart {
    size_t param = 0;
    int64_t first = 0;  // element of the parameter's tensors
    int64_t count = 0;
    std::array<HashedCopy*, 3> copies = {};  // of master, exp_avg, exp_avg_sq; null: absent
    std::array<bool, 3> is_moved = {};       // it lies in the home
  };
  // State whose memory was moved.
  struct Move {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    int64_t bytes = 0;
  };
  // The three tensors of a parameter's state in the order of CopiedPart.
  static std::array<TensorRef*, 3> state_of(Param& param);
  void move_state(Param& param, const std::array<std::vector<HashedCopy*>, 3>& copies,
                  std::span<std::byte> home);
  // Returns true if QK-clip may scale the parameter, even if it is frozen.
  bool is_clipped(const Param& param) const;
  // Returns true if the update works element by element and nothing changes its result.
  bool can_be_copied(const Param& param) const;
  void update_with_copies(Ctx& ctx);
  bool takes_registers(const CopiedPart& part) const;
  void update_part(Ctx& ctx, const CopiedPart& part) const;
  // Updates a part whose copies the kernel makes in registers.
  void update_whole_blocks(Ctx& ctx, const CopiedPart& part) const;
  // Updates elements [first, first + count) of the parameter in caches, and copies them.
  void update_in_caches(Ctx& ctx, const CopiedPart& part, int64_t first, int64_t count,
                        std::array<Hasher64, 3>* hashers) const;
  bool is_out_of_place() const { return copy_target_.data() != home_.data(); }
  static Param part_of_param(const Param& param, int64_t first, int64_t count);
  AdamWArgs adamw_args(const Param& param) const;

  Param bind(const ChunkTables& chunk, const OwnedParam& owned,
             const OptimizerMemory& memory) const;
  void add_pieces(const ChunkTables& chunk, const OptimizerMemory& memory);
  void update(Ctx& ctx, const Param& param) const;

  OptimConfig config_;
  NormSum norm_sum_;
  uint64_t seed_;
  std::optional<QkClip> qk_clip_;
  int64_t heads_ = 0;  // of a layer of the model, with QK-clip
  std::vector<Param> params_;
  std::vector<std::vector<std::vector<Param>>> pieces_;  // [chunk][piece]
  // The fields below belong to the update that is being made.
  double lr_ = 0.0;
  double grad_scale_ = 0.0;
  double num_microbatches_ = 1.0;
  bool skips_ = false;
  bool is_attempted_ = false;
  int64_t num_rollbacks_ = 0;
  struct Copied {
    TensorRef tensor_N, copy_N;
  };
  std::vector<Copied> copied_;
  std::vector<CopiedPart> copied_parts_;  // the longest first
  std::vector<bool> is_copied_;           // [param] it has parts
  std::vector<Move> moves_;
  std::span<std::byte> home_;
  std::span<std::byte> copy_target_;  // of the next update; empty: no copies
  std::function<void()> copies_made_;
  int64_t num_updates_ = 0;
};

}  // namespace trireme
