#include "train/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "models/init.h"
#include "program/data_parallel.h"
#include "runtime/reserve_moves.h"
#include "train/tied_groups.h"

namespace trireme {
namespace {

// Initial values of weights in bf16 are computed in fp32, so many at a time.
constexpr int64_t kInitElements = 1 << 18;

Algorithm algorithm_of(const RunPlan& plan) {
  return plan.mode == AccumulateMode::Layout ? Algorithm::Canonical : Algorithm::Auto;
}

// Each process of a launcher already has its own cores, so it counts only its own ranks.
int ranks_of_this_process(const RunPlan& plan) {
  return plan.config.run.backend == BackendChoice::Mpi ? 1 : plan.num_ranks();
}

std::string offload_path(const MemoryConfig& memory, const std::string& folder, int rank) {
  std::filesystem::path in = memory.offload_folder.empty() ? folder : memory.offload_folder;
  if (in.empty()) in = std::filesystem::temp_directory_path();
  return (in / fmt::format("offload.rank{}", rank)).string();
}

}  // namespace

Engine::Engine(const RunPlan& plan, World& world, const KernelTable& kernels,
               const TokenSource& source, const std::string& folder)
    : Engine(plan, trireme::rank_plan(plan, position_in_mesh(world)), world, kernels, source,
             folder) {}

Engine::Engine(const RunPlan& plan, RankPlan rank, World& world, const KernelTable& kernels,
               const TokenSource& source, const std::string& folder)
    : plan_(plan),
      world_(world),
      groups_(world, plan.mesh),
      rank_(std::move(rank)),
      batch_(
          groups_.dp().split(rank_.coords.dp / rank_.shape.batch_ranks, rank_.coords.dp, "batch")),
      binding_(world.rank(), ranks_of_this_process(plan), plan.num_threads),
      team_(plan.num_threads),
      arena_(world.allocate_shared(rank_.memory.arena_bytes)),
      memory_(rank_, arena_->data(), team_),
      offload_(rank_, memory_, offload_path(plan.config.memory, folder, world.rank()),
               plan.config.run.comm_timeout_s),
      stream_(team_, memory_.workspace()),
      ctx_{stream_, kernels, groups_.tp(), groups_.cp(), groups_.ep(), *batch_},
      optimizer_(plan.config.optim, rank_.norm_sum, plan.config.run.seed) {
  TRIREME_CHECK(rank_.position == groups_.position(), "the plan of another rank");
  if (has_pairs(rank_.program)) {
    ctx_.turns = &turns_.emplace([this] { return running_ns(ctx_); });
    for (Group* group : {&groups_.tp(), &groups_.cp(), &groups_.ep(), batch_.get()}) {
      group->take_turns(*turns_);
    }
  }
  if (plan.shape.compute == DType::F16) {
    loss_scale_ = {plan.config.precision.loss_scale, plan.config.precision.loss_scale_window};
  }
  const int degree = rank_.zero.level == 0 ? 1 : rank_.zero.degree;
  const int dp = rank_.coords.dp;
  shards_ = groups_.dp().split(dp / degree, dp, "shards");
  replicas_ = groups_.dp().split(dp % degree, dp, "replicas");
  // Groups among the ranks that hold the same experts. If every rank holds all experts these are
  // all ranks of dp.
  const int ep_dp = plan.mesh.ep_dp();
  const int same = rank_.coords.dp / ep_dp;
  const int expert_degree = rank_.expert_zero.level == 0 ? 1 : rank_.expert_zero.degree;
  const std::unique_ptr<Group> holders =
      groups_.dp().split(rank_.coords.dp % ep_dp, dp, "expert_holders");
  expert_shards_ = holders->split(same / expert_degree, same, "expert_shards");
  expert_replicas_ = holders->split(same % expert_degree, same, "expert_replicas");
  const int pp = rank_.coords.pp, in_pipeline = groups_.pp().rank();
  // Two ranks of the pipeline that sum gradients differ in pp alone.
  const int num_lines = plan.mesh.dp * plan.mesh.tp;
  const int line = rank_.coords.dp * plan.mesh.tp + rank_.coords.tp;
  const int of_mirror = std::min(pp, plan.mesh.pp - 1 - pp) * num_lines + line;
  mirror_ = groups_.pp().split(of_mirror, in_pipeline, "mirror");

  optimizer_.clip_logits_of(plan.model);
  for (size_t c = 0; c < rank_.chunks.size(); ++c) {
    const ChunkTables& chunk = rank_.chunks[c];
    const ChunkRegions& regions = rank_.memory.chunks[c];
    stages_.emplace_back(plan.model, chunk.stage, rank_.shape, chunk.tables,
                         memory_.stage_memory(int(c)), plan.config.run.seed);
    clocks_.emplace_back().op_ns.resize(stages_.back().num_ops());
    OptimizerMemory memory{regions.params >= 0 ? memory_.at(regions.params) : nullptr,
                           memory_.at(regions.grad_slots[0])};
    if (regions.optimizer >= 0) memory.optimizer = memory_.at(regions.optimizer);
    if (regions.copies >= 0) memory.copies = memory_.at(regions.copies);
    const int newton_schulz = rank_.memory.newton_schulz;
    if (newton_schulz >= 0) memory.newton_schulz = memory_.at(newton_schulz);
    for (size_t piece = 0; piece < chunk.pieces.size(); ++piece) {
      memory.staged.push_back(offload_.staged(int(c), int(piece)));
    }
    optimizer_.add(chunk, memory);
  }
  optimizer_.reserve(groups_.tp());
  for (const ChunkTables& chunk : rank_.chunks) {
    reserve_moves(groups_.tp(), *batch_, plan.model, chunk.stage, rank_.shape);
  }
  bind_owned();
  pipeline_ = std::make_unique<Pipeline>(rank_, memory_, groups_.pp(), groups_.tp(), stages_);
  tied_.emplace(make_tied_sum(plan, rank_, groups_, algorithm_of(plan)));
  data_parallel_ =
      std::make_unique<DataParallel>(rank_, memory_,
                                     DataParallelGroups{*shards_, *replicas_, *tied_, *mirror_,
                                                        *expert_shards_, *expert_replicas_},
                                     algorithm_of(plan));
  executor_ = std::make_unique<Executor>(Executor::Parts{
      rank_, memory_, stages_, optimizer_, source, world.group(), *pipeline_, *data_parallel_,
      offload_, *tensor_addends_, *context_addends_, plan.shape.micro_sequences,
      plan.model.sample_words(), ContextChunks{plan.model.seq_len, plan.mesh.cp, rank_.coords.cp}});
}

void Engine::time_ops(bool on) {
  times_ops_ = on;
  for (size_t c = 0; c < stages_.size(); ++c) stages_[c].set_clock(on ? &clocks_[c] : nullptr);
}

std::vector<OpSeconds> Engine::op_seconds() const {
  std::vector<OpSeconds> seconds;
  for (const OpClock& clock : clocks_) {
    for (const auto& ns : clock.op_ns) {
      std::transform(ns.begin(), ns.end(), seconds.emplace_back().begin(),
                     [](int64_t half) { return double(half) * 1e-9; });
    }
  }
  return seconds;
}

int64_t Engine::message_scratch_bytes() const {
  int64_t bytes = 0;
  for (const Group* group : {&world_.group(), &groups_.tp(), batch_.get(), shards_.get(),
                             replicas_.get(), mirror_.get()}) {
    if (group != nullptr) bytes += group->scratch_bytes();
  }
  return bytes + tied_->scratch_bytes() + pipeline_->scratch_bytes();
}

void Engine::bind_owned() {
  std::vector<GradAddends::Part> of_tensors, of_contexts;
  for (size_t c = 0; c < rank_.chunks.size(); ++c) {
    const ChunkTables& chunk = rank_.chunks[c];
    const ChunkRegions& regions = rank_.memory.chunks[c];
    const Frame state(chunk.tables.optimizer, regions.optimizer >= 0 ? memory_.at(regions.optimizer)
                                                                     : offload_.state(int(c)));
    for (const OwnedParam& owned : chunk.owned) {
      OwnedTensors tensors{.first = owned.first, .count = owned.count};
      tensors.spec = &chunk.params[owned.param];
      tensors.layout = &chunk.layouts[owned.param];
      const auto find = [&](const char* kind) {
        TensorRef tensor = state.find(kind + owned.name);
        tensor.shape = Shape{tensor ? owned.count : 0};
        return tensor;
      };
      const TensorRef own{
          static_cast<char*>(params(int(c))) + owned.param_begin * size_of(plan_.shape.compute),
          plan_.shape.compute, Shape{owned.count}};
      tensors.master_N = find("master/");
      if (tensors.master_N) {
        tensors.param_N = own;
      } else {
        tensors.master_N = own;
      }
      tensors.exp_avg_N = find("exp_avg/");
      tensors.exp_avg_sq_N = find("exp_avg_sq/");
      // The rank that counts it in the norm also writes it.
      tensors.in_checkpoint = owned.norm_word >= 0;
      const auto grad = [&](int64_t begin) {
        return memory_.elements(regions.grad_slots[0], chunk.grad_dtype, begin, owned.count);
      };
      if (owned.has_grad()) tensors.grad_N = grad(owned.grad_begin);
      owned_.push_back(tensors);
      if (!owned.has_grad()) continue;
      of_tensors.push_back({tensors.layout->grad_addends, grad(owned.grad_begin)});
      of_contexts.push_back({tensors.layout->cp_addends, grad(owned.grad_begin)});
      if (owned.second_use_begin >= 0) {
        of_contexts.push_back({tensors.layout->cp_addends, grad(owned.second_use_begin)});
      }
    }
  }
  tensor_addends_ = std::make_unique<GradAddends>(groups_.tp(), of_tensors);
  context_addends_ =
      std::make_unique<GradAddends>(groups_.cp(), of_contexts, GradAddends::Holders::EveryNth);
}

void* Engine::params(int chunk) const {
  const int region = rank_.memory.chunks[size_t(chunk)].params;
  return region >= 0 ? memory_.at(region) : offload_.params(chunk);
}

void Engine::init_params(uint64_t seed) {
  std::vector<float> piece(kInitElements);
  for (const OwnedTensors& owned : owned_) {
    if (owned.master_N.dtype == DType::F32) {
      init_param(ctx_, *owned.spec, owned.layout, owned.first, owned.master_N, seed);
      if (owned.param_N) ctx_.kernels.convert(stream_, {owned.master_N, owned.param_N});
      continue;
    }
    for (int64_t done = 0; done < owned.count; done += kInitElements) {
      const Shape count{std::min(owned.count - done, kInitElements)};
      const TensorRef piece_N{piece.data(), DType::F32, count};
      init_param(ctx_, *owned.spec, owned.layout, owned.first + done, piece_N, seed);
      const DType dtype = owned.master_N.dtype;
      const TensorRef part_N{static_cast<char*>(owned.master_N.data) + done * size_of(dtype), dtype,
                             count};
      ctx_.kernels.convert(stream_, {piece_N, part_N});
    }
  }
  gather_params();
}

void Engine::gather_params() {
  offload_.adopt_map();
  executor_->gather_params(ctx_);
}

StepResult Engine::step(uint64_t first_sample, double lr, bool stop,
                        std::optional<uint64_t> next_sample) {
  ctx_.loss_scale = static_cast<float>(loss_scale_.value());
  const StepResult result = executor_->run_step(ctx_, first_sample, lr, stop, next_sample);
  loss_scale_.take_step(result.update.skipped);
  return result;
}

GradNorm Engine::measure_gradient(uint64_t first_sample, int64_t microbatch) {
  const StepResult result = compute_gradient(first_sample, microbatch);
  return {result.update.grad_norm, result.valid_tokens};
}

StepResult Engine::compute_gradient(uint64_t first_sample) {
  return compute_gradient(first_sample, std::nullopt);
}

StepResult Engine::compute_gradient(uint64_t first_sample, std::optional<int64_t> microbatch) {
  ctx_.loss_scale = static_cast<float>(loss_scale_.value());
  const bool timed = times_ops_;
  time_ops(false);
  const StepResult result = executor_->measure_gradient(ctx_, first_sample, microbatch);
  time_ops(timed);
  return result;
}

StepResult Engine::compute_gradient_of(uint64_t first_sample, int replica) {
  const int dp = plan_.mesh.dp_at(rank_.coords.pp);
  const MicrobatchMap microbatches = microbatches_of(rank_, plan_.schedule, dp, replica);
  ctx_.loss_scale = static_cast<float>(loss_scale_.value());
  const bool timed = times_ops_;
  time_ops(false);
  const StepResult result = executor_->measure_gradient_of(ctx_, first_sample, microbatches);
  time_ops(timed);
  return result;
}

// Each lane evaluates every dp-th micro-batch. All lanes run the same number of micro-batches,
// because ranks gather shards together. Each sum is a word that one rank fills and
// all ranks add in the same order, so every layout gives the same bits.
EvalResult Engine::evaluate(const TokenSource& source, int64_t num_sequences) {
  const int64_t micro = plan_.shape.micro_sequences;
  const int64_t num_batches = (num_sequences + micro - 1) / micro;
  const int64_t cp = plan_.mesh.cp;
  std::vector<int64_t> words(size_t(3 * num_batches * cp), 0);
  std::vector<Executor::EvalMicrobatch> of_lanes(size_t(rank_.lanes.count));
  for (int64_t first_batch = 0; first_batch < num_batches; first_batch += plan_.mesh.dp) {
    const auto batch_of = [&](size_t lane) {
      return first_batch + rank_.lanes.of_pipeline(int(lane));
    };
    for (size_t lane = 0; lane < of_lanes.size(); ++lane) {
      const int64_t first = batch_of(lane) * micro;
      of_lanes[lane] = {uint64_t(first), std::clamp<int64_t>(num_sequences - first, 0, micro)};
    }
    executor_->evaluate(ctx_, source, of_lanes);
    for (size_t lane = 0; lane < of_lanes.size(); ++lane) {
      if (batch_of(lane) >= num_batches || rank_.coords.tp != 0) continue;
      const Executor::EvalLoss& loss = of_lanes[lane].loss;
      const int64_t word = 3 * (batch_of(lane) * cp + rank_.coords.cp);
      words[size_t(word)] = std::bit_cast<int64_t>(loss.loss_sum);
      words[size_t(word + 1)] = loss.valid_tokens;
      words[size_t(word + 2)] = loss.num_hits;
    }
  }
  world_.group().all_reduce({words.data(), DType::I64, Shape{int64_t(words.size())}});
  EvalResult result;
  for (size_t word = 0; word < words.size(); word += 3) {
    result.loss_sum += std::bit_cast<double>(words[word]);
    result.valid_tokens += words[word + 1];
    result.num_hits += words[word + 2];
  }
  return result;
}

std::optional<Frame> Engine::stored_params(int chunk) const {
  const ChunkTables& tables = rank_.chunks[size_t(chunk)];
  if (tables.gathers_params()) return std::nullopt;
  return Frame(tables.tables.params, params(chunk));
}

std::optional<Frame> Engine::whole_params() const {
  if (!plan_.holds_whole_model(rank_)) return std::nullopt;
  return Frame(rank_.chunks.front().tables.params, params(0));
}

Frame Engine::grads(int chunk) const {
  return Frame(rank_.chunks[size_t(chunk)].tables.grads,
               memory_.at(rank_.memory.chunks[size_t(chunk)].grad_slots[0]));
}

// Step has released the memory of the gradients, and nothing has reused it since.
void Engine::read_grads(const std::function<void()>& read) {
  std::vector<int> slots;
  for (const ChunkRegions& regions : rank_.memory.chunks) slots.push_back(regions.grad_slots[0]);
  memory_.acquire(slots);
  read();
  memory_.release(slots);
}

void Engine::bind_copies(std::span<HashedCopy> copies, std::span<std::byte> home) {
  optimizer_.bind_copies(copies, home);
  before_moves_ = owned_;
  for (OwnedTensors& owned : owned_) {
    for (TensorRef* tensor_N : {&owned.master_N, &owned.exp_avg_N, &owned.exp_avg_sq_N}) {
      *tensor_N = optimizer_.moved(*tensor_N);
    }
  }
}

void Engine::release_copies() {
  optimizer_.release_copies();
  if (!before_moves_.empty()) owned_ = std::exchange(before_moves_, {});
}

std::span<std::byte> Engine::snapshot_memory() const { return bytes_of(rank_.memory.snapshot); }

std::span<std::byte> Engine::move_memory() const { return bytes_of(rank_.memory.moves); }

std::span<std::byte> Engine::bytes_of(int region) const {
  if (region < 0) return {};
  return {static_cast<std::byte*>(memory_.at(region)),
          size_t(rank_.memory.regions[size_t(region)].bytes)};
}

std::vector<std::pair<std::string, Traffic>> Engine::traffic() const {
  auto by_axis = groups_.traffic();
  for (auto& [axis, traffic] : by_axis) {
    if (axis == "dp") {
      for (const auto* group : {&shards_, &replicas_, &expert_shards_, &expert_replicas_}) {
        traffic += (*group)->traffic();
      }
      traffic += batch_->traffic();
      traffic += tied_->gather_traffic();
    }
    if (axis == "tp") {
      traffic += tensor_addends_->traffic();
      traffic += pipeline_->gather_traffic();
    }
    if (axis == "cp") traffic += context_addends_->traffic();
    if (axis == "pp") {
      traffic += tied_->traffic();
      traffic += mirror_->traffic();
    }
  }
  by_axis.emplace_back(
      "file", Traffic{.sent_bytes = offload_.moved_bytes(), .waited_ns = offload_.waited_ns()});
  return by_axis;
}

std::vector<std::pair<std::string, int64_t>> Engine::sent_bytes() const {
  std::vector<std::pair<std::string, int64_t>> by_axis;
  for (const auto& [axis, traffic] : traffic()) by_axis.emplace_back(axis, traffic.sent_bytes);
  return by_axis;
}

}  // namespace trireme
