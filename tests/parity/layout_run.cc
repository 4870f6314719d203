#include "layout_run.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/element.h"
#include "data/documents.h"
#include "data/image_source.h"
#include "data/synthetic_images.h"
#include "data/synthetic_source.h"
#include "device/isa.h"
#include "kernels/kernel_table.h"
#include "predict/collective_bytes.h"
#include "predict/predict.h"
#include "train/checkpoint_saver.h"
#include "train/run_state.h"

namespace trireme {
namespace {

const KernelTable& kernels() {
  const std::vector<Isa> isas = supported_isas();
  return isas.empty() ? reference_kernels() : cpu_kernels(isas.back());
}

// Copies the part of a parameter that a rank owns to its place in the whole parameter.
void collect(const OwnedTensors& owned, const TensorRef& tensor_N,
             std::map<std::string, std::vector<float>>& all) {
  const ParamLayout& layout = *owned.layout;
  std::vector<float>& values = all[owned.spec->name];
  values.resize(size_t(layout.global.num_elements()));
  for (int64_t i = 0; i < owned.count; ++i) {
    float& value = values[size_t(global_element(owned, i))];
    value = float(read_element(tensor_N.data, tensor_N.dtype, i));
  }
}

// Returns how the traffic of the steps differs from the plan.
std::string traffic_difference(const RunPlan& plan, const Engine& engine, const NodeMap& nodes,
                               int num_steps,
                               const std::vector<std::pair<std::string, int64_t>>& before) {
  const AxisBytes predicted = predict_traffic(plan, engine.rank_plan(), nodes);
  RankPlan leading = engine.rank_plan();
  leading.program.resize(size_t(leading.num_ahead));
  const AxisBytes repeated = predict_traffic(plan, leading, nodes);
  std::string text;
  for (size_t a = 0; a < predicted.size(); ++a) {
    const std::string_view axis = predicted[a].first;
    const int64_t bytes = num_steps * predicted[a].second +
                          engine.executor().num_dropped_ahead() * repeated[a].second;
    const bool is_routed = plan.model.top_k < plan.model.experts;
    // Depends on the choices of the router.
    if (axis == "ep" && plan.mesh.ep > 1 && is_routed) continue;
    int64_t sent = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i].first == axis) sent = engine.sent_bytes()[i].second - before[i].second;
    }
    if (sent != bytes) text += fmt::format("{} sent {} for {}; ", axis, sent, bytes);
  }
  return text;
}

class RankRun {
 public:
  RankRun(const RunPlan& plan, const RunSteps& steps, LayoutRun& result, std::mutex& mutex)
      : plan_(plan), steps_(steps), result_(result), mutex_(mutex) {}

  std::unique_ptr<TokenSource> images_of(const char* split) const {
    const ModelSpec& model = plan_.model;
    const ImageExtents extents{model.image_size, model.image_size, model.image_channels};
    constexpr int64_t kImages = 100;
    auto images = std::make_shared<SyntheticImages>(3, extents, model.vocab_size, kImages, split);
    return std::make_unique<ImageSource>(std::move(images), 3, ImageAugmentation{false, 1});
  }

  // A frequent token ends documents, so that most sequences have several.
  std::unique_ptr<TokenSource> source_of(const char* split) const {
    if (plan_.model.reads_images()) return images_of(split);
    auto source = std::make_unique<SyntheticSource>(3, plan_.model.vocab_size, split);
    if (!plan_.config.data.document_mask) return source;
    return std::make_unique<DocumentSource>(std::move(source), 0);
  }

  void operator()(World& world) const {
    const std::unique_ptr<TokenSource> source = source_of("train"), validation = source_of("val");
    const int position = position_in_mesh(world);
    Engine engine(
        plan_,
        steps_.ranks != nullptr ? (*steps_.ranks)[size_t(position)] : rank_plan(plan_, position),
        world, kernels(), steps_.source != nullptr ? *steps_.source : *source);
    start(engine);
    const auto sample_of = [&](int step) {
      return uint64_t(step) * uint64_t(plan_.global_sequences);
    };
    const auto sent_before = engine.sent_bytes();
    std::string differences;
    for (int step = steps_.first; step < steps_.end; ++step) {
      std::optional<uint64_t> next;
      if (steps_.runs_ahead && step + 1 < steps_.end) next = sample_of(step + 1);
      const StepResult outcome = engine.step(sample_of(step), steps_.lr, false, next);
      const std::lock_guard lock(mutex_);
      if (!engine.executor().is_ahead()) {
        differences +=
            traffic_difference(plan_, engine, steps_.nodes, step + 1 - steps_.first, sent_before);
      }
      if (step == steps_.first) {
        for (const OwnedTensors& owned : engine.owned()) {
          if (owned.exp_avg_N) collect(owned, owned.exp_avg_N, result_.first_moments);
        }
        if (steps_.reads_visits) engine.read_grads([&] { collect_visits(engine); });
      }
      if (world.rank() != 0) continue;
      result_.losses.push_back(outcome.loss_sum);
      result_.valid_tokens.push_back(outcome.valid_tokens);
      result_.ahead_losses.push_back(outcome.ahead_loss_sum);
      result_.grad_norms.push_back(outcome.update.grad_norm);
      result_.expert_loads.insert(result_.expert_loads.end(), outcome.expert_loads.begin(),
                                  outcome.expert_loads.end());
      result_.largest_logits.insert(result_.largest_logits.end(), outcome.largest_logits.begin(),
                                    outcome.largest_logits.end());
      result_.router_losses.insert(result_.router_losses.end(), outcome.router_losses.begin(),
                                   outcome.router_losses.end());
    }
    const auto sent = engine.sent_bytes();
    const EvalResult eval = steps_.evaluates ? engine.evaluate(*validation, 5) : EvalResult{};
    save(engine);
    const std::lock_guard lock(mutex_);
    result_.differences += differences;
    for (size_t i = 0; i < sent.size(); ++i) {
      result_.sent_bytes[sent[i].first] += sent[i].second - sent_before[i].second;
    }
    const RankPlan& rank = engine.rank_plan();
    if (engine.peak_bytes() != rank.memory.peak_bytes && steps_.runs_ahead) {
      result_.differences += fmt::format("rank {} peaked at {} for {}; ", world.rank(),
                                         engine.peak_bytes(), rank.memory.peak_bytes);
    }
    for (const OwnedTensors& owned : engine.owned()) {
      collect(owned, owned.master_N, result_.weights);
    }
    result_.num_rollbacks += engine.optimizer().num_rollbacks();
    result_.num_begun_ahead += engine.executor().num_begun_ahead();
    result_.num_dropped_ahead += engine.executor().num_dropped_ahead();
    if (world.rank() == 0) result_.val_loss = eval.mean();
  }

 private:
  void start(Engine& engine) const {
    if (steps_.load_from.empty()) return engine.init_params(plan_.config.run.seed);
    Result<Checkpoint> checkpoint = Checkpoint::open(steps_.load_from);
    TRIREME_CHECK(checkpoint.ok(), checkpoint.error().message);
    const Result<TrainPosition> position = restore(*checkpoint, plan_, engine);
    TRIREME_CHECK(position.ok(), position.error().message);
    engine.optimizer().set_num_updates(position->num_updates);
  }

  void collect_visits(const Engine& engine) const {
    for (const OwnedTensors& owned : engine.owned()) {
      if (owned.spec->balance_rate > 0.0 && owned.grad_N)
        collect(owned, owned.grad_N, result_.visits);
    }
  }

  void save(Engine& engine) const {
    if (steps_.save_to.empty()) return;
    TrainPosition position;
    position.step = steps_.end;
    position.num_updates = engine.optimizer().num_updates();
    const std::filesystem::path run = std::filesystem::path(steps_.save_to).parent_path();
    // Because a save does not create the folder of its run.
    std::filesystem::create_directories(run);
    CheckpointSaver saver(
        engine,
        [&](const TrainPosition& at) {
          return SaveRequest{checkpoint_info(plan_, at, "parity"), {}, steps_.save_to, ""};
        },
        {});
    const Status saved = saver.save(position);
    TRIREME_CHECK(saved.ok(), saved.error().message);
  }

  const RunPlan& plan_;
  const RunSteps& steps_;
  LayoutRun& result_;
  std::mutex& mutex_;
};

std::string difference(const std::map<std::string, std::vector<float>>& a,
                       const std::map<std::string, std::vector<float>>& b) {
  if (a.size() != b.size()) return "other tensors";
  for (const auto& [name, values] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.size() != values.size()) return name + " is missing";
    if (std::memcmp(values.data(), found->second.data(), values.size() * sizeof(float)) != 0) {
      return name;
    }
  }
  return "";
}

}  // namespace

int64_t global_element(const OwnedTensors& owned, int64_t i) {
  const ParamLayout& layout = *owned.layout;
  const bool is_matrix = layout.global.rank() == 2;
  const int64_t row = is_matrix ? layout.extent[1] : 1;
  const int64_t global_row = is_matrix ? layout.global[1] : 1;
  const int64_t origin = layout.begin[0] * global_row + (is_matrix ? layout.begin[1] : 0);
  const int64_t element = owned.first + i;
  return origin + element / row * global_row + element % row;
}

LayoutRun run_layout(const RunPlan& plan, const RunSteps& steps) {
  LayoutRun result;
  std::mutex mutex;
  run_ranks(plan.num_ranks(),
            {.timeout_s = plan.config.run.comm_timeout_s,
             .nodes = steps.nodes,
             .cost = comm_cost(plan),
             .call_hook = steps.call_hook},
            RankRun(plan, steps, result, mutex));
  return result;
}

std::string difference(const LayoutRun& a, const LayoutRun& b) {
  if (a.losses != b.losses) return "losses";
  if (a.valid_tokens != b.valid_tokens) return "valid tokens";
  if (a.grad_norms != b.grad_norms) return "gradient norms";
  if (a.expert_loads != b.expert_loads) return "experts' loads";
  if (a.router_losses != b.router_losses) return "routers' losses";
  if (a.ahead_losses != b.ahead_losses) return "losses of the modules that look ahead";
  if (a.largest_logits != b.largest_logits) return "largest attention logits";
  if (a.val_loss != b.val_loss) return "validation loss";
  const std::string gradient = difference(a.first_moments, b.first_moments);
  if (!gradient.empty()) return "gradient of " + gradient;
  const std::string weight = difference(a.weights, b.weights);
  return weight.empty() ? "" : "weight " + weight;
}

}  // namespace trireme
