// Runs the kernels of a training step one after the other on real data flow: every matmul,
// attention, norms and activation, the loss and AdamW. It has no biases, gains, clipping, plan or
// executor. The trainer is compared with it.
// Usage: bare_sequence CONFIG.toml [--seconds S] [--set a.b=v]

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "base/json_text.h"
#include "compile/run_plan.h"
#include "config/config_load.h"
#include "data/synthetic_source.h"
#include "kernels/kernel_table.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

// Legend: T tokens, C d_model, D qkv_width, F d_ff, V vocabulary, H heads.

struct Weight {
  MatrixRef value, grad;
  TensorRef value_N, grad_N, master_N, exp_avg_N, exp_avg_sq_N;
};

struct LayerWeights {
  Weight qkv, out, up, down;
};

struct LayerActivations {
  MatrixRef x_TC, h1_TC, qkv_TD, o_TC, x1_TC, h2_TC, u_TF, a_TF;
  TensorRef mean1_T, rstd1_T, mean2_T, rstd2_T, lse_HT;
};

class BareSequence {
 public:
  BareSequence(const RunPlan& plan, Stream& stream, const KernelTable& kernels)
      : model_(plan.model),
        compute_(plan.shape.compute),
        num_sequences_(plan.global_sequences),
        T_(plan.tokens_per_step()),
        stream_(stream),
        k_(kernels) {
    TRIREME_CHECK(model_.mlp != MlpType::Swiglu && !model_.rope, "the bare sequence is a gpt2");
    const int64_t C = model_.d_model;
    tokens_ = weight("tokens", model_.vocab_size);
    positions_ = weight("positions", model_.seq_len);
    head_ = model_.tied_head ? tokens_ : weight("head", model_.vocab_size);
    for (int64_t i = 0; i < model_.layers; ++i) {
      layers_.push_back({weight("qkv", model_.qkv_width()), weight("out", C),
                         weight("up", model_.d_ff), weight("down", C, model_.d_ff)});
      saved_.push_back({activation(C), activation(C), activation(model_.qkv_width()), activation(C),
                        activation(C), activation(C), activation(model_.d_ff),
                        activation(model_.d_ff), statistic(1), statistic(1), statistic(1),
                        statistic(1), statistic(model_.heads)});
    }
    y_TC_ = activation(C);
    h_TC_ = activation(C);
    dh_TC_ = activation(C);
    dx_TC_ = activation(C);
    dx1_TC_ = activation(C);
    dhidden_TC_ = activation(C);
    do_TC_ = activation(C);
    dqkv_TD_ = activation(model_.qkv_width());
    da_TF_ = activation(model_.d_ff);
    mean_T_ = statistic(1);
    rstd_T_ = statistic(1);
    delta_HT_ = statistic(model_.heads);
    loss_T_ = statistic(1);
    max_T_ = statistic(1);
    sum_T_ = statistic(1);
    part_3T_ = statistic(3);
    const int64_t V = model_.vocab_size, columns = logit_columns(V);
    dlogits_TV_ = cols_of(activation(columns), 0, V);
    logits_tV_ =
        cols_of(matrix(tensor(DType::F32, {std::min(T_, kLossTileTokens), columns})), 0, V);
    tokens_T_ = tensor(DType::I32, {T_});
    targets_T_ = tensor(DType::I32, {T_});
  }

  double step(const TokenSource& source) {
    read(source);
    k_.embedding_forward(
        stream_, {tokens_T_, tokens_.value, positions_.value, model_.seq_len, saved_.front().x_TC});
    for (size_t i = 0; i < layers_.size(); ++i) forward(i);
    const double loss = head();
    for (size_t i = layers_.size(); i-- > 0;) backward(i);
    k_.embedding_backward(stream_,
                          {tokens_T_, dx_TC_, tokens_.grad, positions_.grad, model_.seq_len,
                           model_.tied_head ? Write::Accumulate : Write::Overwrite});
    update();
    return loss;
  }

 private:
  TensorRef tensor(DType dtype, Shape shape) {
    memory_.emplace_back(dtype, shape);
    return memory_.back().ref();
  }
  MatrixRef activation(int64_t width) { return matrix(tensor(compute_, {T_, width})); }
  TensorRef statistic(int64_t rows) { return tensor(DType::F32, {rows * T_}); }

  Weight weight(const char* name, int64_t rows, int64_t cols = 0) {
    const Shape shape{rows, cols == 0 ? model_.d_model : cols};
    const Shape flat{shape.num_elements()};
    const TensorRef grad = tensor(DType::F32, shape);
    const TensorRef master = tensor(DType::F32, shape);
    const TensorRef value = compute_ == DType::F32 ? master : tensor(compute_, shape);
    Weight weight{matrix(value),
                  matrix(grad),
                  {value.data, value.dtype, flat},
                  {grad.data, grad.dtype, flat},
                  {master.data, master.dtype, flat},
                  tensor(DType::F32, flat),
                  tensor(DType::F32, flat)};
    k_.fill_normal(stream_, {rng_key(weights_.size(), name), 0.02f, 0, weight.master_N});
    if (compute_ != DType::F32) k_.convert(stream_, {weight.master_N, weight.value_N});
    weights_.push_back(weight);
    return weight;
  }

  void read(const TokenSource& source) {
    const size_t S = size_t(model_.seq_len);
    for (size_t i = 0; i < size_t(num_sequences_); ++i) {
      source.read_sample(next_sample_++, {tokens_T_.as<int32_t>() + i * S, S},
                         {targets_T_.as<int32_t>() + i * S, S});
    }
  }

  NormKind norm_kind() const {
    return model_.norm == NormType::LayerNorm ? NormKind::Layer : NormKind::Rms;
  }
  void norm(MatrixRef x, MatrixRef y, TensorRef mean, TensorRef rstd) {
    const TensorRef wanted = norm_kind() == NormKind::Layer ? mean : TensorRef{};
    k_.norm_forward(stream_, {norm_kind(), 1e-5f, x, {}, {}, y, wanted, rstd});
  }
  void norm_backward(MatrixRef dy, MatrixRef x, TensorRef mean, TensorRef rstd, MatrixRef residual,
                     MatrixRef dx) {
    const TensorRef wanted = norm_kind() == NormKind::Layer ? mean : TensorRef{};
    k_.norm_backward_input(stream_, {norm_kind(), dy, x, {}, wanted, rstd, residual, dx});
  }
  void linear(MatrixRef x, const Weight& w, MatrixRef y, MatrixRef residual = {}) {
    k_.matmul(stream_,
              {.form = MatmulForm::NT, .a = x, .b = w.value, .c = y, .residual_MN = residual});
  }
  void loss_of(MatrixRef logits, int64_t begin, int64_t count, MatrixRef dlogits) {
    const TensorRef targets = slice(targets_T_, begin, count), max = slice(max_T_, begin, count);
    const TensorRef sum = slice(sum_T_, begin, count);
    const MatrixRef part{part_3T_.data, DType::F32, 3, count, count};
    k_.softmax_part(stream_, {logits, targets, 0, logits.cols, part});
    k_.cross_entropy(stream_, {part, targets, slice(loss_T_, begin, count), max, sum});
    k_.cross_entropy_gradient(stream_, {logits, targets, 0, max, sum, dlogits});
  }
  void linear_backward_input(MatrixRef dy, const Weight& w, MatrixRef dx) {
    k_.matmul(stream_, {.form = MatmulForm::NN, .a = dy, .b = w.value, .c = dx});
  }
  void linear_backward_weight(MatrixRef dy, MatrixRef x, const Weight& w) {
    k_.matmul(stream_, {.form = MatmulForm::TN, .a = dy, .b = x, .c = w.grad});
  }

  Activation activation_kind() const {
    return model_.mlp == MlpType::Relu ? Activation::Relu : Activation::GeluTanh;
  }
  AttentionShape attention_shape() const {
    return {num_sequences_,
            model_.seq_len,
            model_.seq_len,
            model_.heads,
            model_.kv_heads,
            model_.head_dim,
            1.0f / std::sqrt(float(model_.head_dim))};
  }
  MatrixRef head_cols(MatrixRef qkv_TD, int part) const {
    return cols_of(qkv_TD, part * model_.d_model, model_.d_model);
  }

  void forward(size_t i) {
    const LayerWeights& w = layers_[i];
    const LayerActivations& s = saved_[i];
    norm(s.x_TC, s.h1_TC, s.mean1_T, s.rstd1_T);
    linear(s.h1_TC, w.qkv, s.qkv_TD);
    k_.attention_forward(stream_, {attention_shape(),
                                   {},
                                   head_cols(s.qkv_TD, 0),
                                   head_cols(s.qkv_TD, 1),
                                   head_cols(s.qkv_TD, 2),
                                   s.o_TC,
                                   lse_of(s)});
    linear(s.o_TC, w.out, s.x1_TC, s.x_TC);
    norm(s.x1_TC, s.h2_TC, s.mean2_T, s.rstd2_T);
    linear(s.h2_TC, w.up, s.u_TF);
    k_.activation_forward(stream_, {activation_kind(), s.u_TF, s.a_TF});
    linear(s.a_TF, w.down, i + 1 < saved_.size() ? saved_[i + 1].x_TC : y_TC_, s.x1_TC);
  }

  void backward(size_t i) {  // dx_TC_: gradient of the layer's output, then of its input
    const LayerWeights& w = layers_[i];
    const LayerActivations& s = saved_[i];
    linear_backward_weight(dx_TC_, s.a_TF, w.down);
    linear_backward_input(dx_TC_, w.down, da_TF_);
    k_.activation_backward(stream_, {activation_kind(), da_TF_, s.u_TF, da_TF_});
    linear_backward_weight(da_TF_, s.h2_TC, w.up);
    linear_backward_input(da_TF_, w.up, dhidden_TC_);
    norm_backward(dhidden_TC_, s.x1_TC, s.mean2_T, s.rstd2_T, dx_TC_, dx1_TC_);
    linear_backward_weight(dx1_TC_, s.o_TC, w.out);
    linear_backward_input(dx1_TC_, w.out, do_TC_);
    k_.attention_backward(stream_, {attention_shape(),
                                    {},
                                    head_cols(s.qkv_TD, 0),
                                    head_cols(s.qkv_TD, 1),
                                    head_cols(s.qkv_TD, 2),
                                    s.o_TC,
                                    do_TC_,
                                    lse_of(s),
                                    {delta_HT_.data, DType::F32, Shape{model_.heads, T_}},
                                    head_cols(dqkv_TD_, 0),
                                    head_cols(dqkv_TD_, 1),
                                    head_cols(dqkv_TD_, 2)});
    linear_backward_weight(dqkv_TD_, s.h1_TC, w.qkv);
    linear_backward_input(dqkv_TD_, w.qkv, dhidden_TC_);
    norm_backward(dhidden_TC_, s.x_TC, s.mean1_T, s.rstd1_T, dx1_TC_, dx_TC_);
  }

  TensorRef lse_of(const LayerActivations& s) const {
    return {s.lse_HT.data, DType::F32, Shape{model_.heads, T_}};
  }
  static TensorRef slice(TensorRef x_T, int64_t begin, int64_t count) {
    return {static_cast<char*>(x_T.data) + begin * size_of(x_T.dtype), x_T.dtype, Shape{count}};
  }

  // Computes the loss tile by tile, and the gradient of the last layer's output in dx_TC_.
  double head() {
    norm(y_TC_, h_TC_, mean_T_, rstd_T_);
    for (int64_t begin = 0; begin < T_; begin += logits_tV_.rows) {
      const int64_t count = std::min(logits_tV_.rows, T_ - begin);
      const MatrixRef logits = rows_of(logits_tV_, 0, count);
      const MatrixRef dlogits = rows_of(dlogits_TV_, begin, count);
      linear(rows_of(h_TC_, begin, count), head_, logits);
      loss_of(logits, begin, count, dlogits);
      linear_backward_input(dlogits, head_, rows_of(dh_TC_, begin, count));
    }
    linear_backward_weight(dlogits_TV_, h_TC_, head_);
    norm_backward(dh_TC_, y_TC_, mean_T_, rstd_T_, {}, dx_TC_);
    double loss = 0.0;
    for (int64_t t = 0; t < T_; ++t) loss += loss_T_.as<float>()[t];
    return loss / double(T_);
  }

  void update() {
    ++num_updates_;
    for (const Weight& w : weights_) {
      k_.adamw(stream_, {.grad_N = w.grad_N,
                         .master_N = w.master_N,
                         .exp_avg_N = w.exp_avg_N,
                         .exp_avg_sq_N = w.exp_avg_sq_N,
                         .param_N = compute_ == DType::F32 ? TensorRef{} : w.value_N,
                         .lr = 6e-4f,
                         .weight_decay = 0.1f,
                         .correction1 = 1.0f - float(std::pow(0.9, num_updates_)),
                         .correction2 = 1.0f - float(std::pow(0.95, num_updates_)),
                         .grad_scale = 1.0f / float(T_)});
    }
  }

  const ModelSpec& model_;
  DType compute_;
  int64_t num_sequences_;
  int64_t T_;
  Stream& stream_;
  const KernelTable& k_;
  std::deque<Tensor> memory_;
  std::vector<Weight> weights_;
  Weight tokens_, positions_, head_;
  std::vector<LayerWeights> layers_;
  std::vector<LayerActivations> saved_;
  MatrixRef y_TC_, h_TC_, dh_TC_, dx_TC_, dx1_TC_, dhidden_TC_, do_TC_, dqkv_TD_, da_TF_;
  MatrixRef dlogits_TV_, logits_tV_;
  TensorRef mean_T_, rstd_T_, delta_HT_, loss_T_, max_T_, sum_T_, part_3T_, tokens_T_, targets_T_;
  uint64_t next_sample_ = 0;
  int num_updates_ = 0;
};

struct Options {
  std::string config;
  std::vector<std::string> overrides;  // of --set a.b=v
  double seconds = 5.0;                // duration of the timed steps
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--seconds" && has_value) {
      options.seconds = std::atof(argv[++i]);
    } else if (option == "--set" && has_value) {
      options.overrides.emplace_back(argv[++i]);
    } else if (!option.starts_with("--") && options.config.empty()) {
      options.config = option;
    } else {
      throw std::invalid_argument("unknown option " + std::string(option));
    }
  }
  if (options.config.empty()) throw std::invalid_argument("name a configuration: configs/*.toml");
  return options;
}

// Returns the median seconds of a step: two steps to warm up, then as many as fit.
template <typename Step>
double median_step_seconds(double budget_s, Step&& step) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  step();
  step();
  std::vector<double> seconds;
  const Clock::time_point begin = Clock::now();
  while (seconds.size() < 3 || since(begin) < budget_s) {
    const Clock::time_point step_begin = Clock::now();
    step();
    seconds.push_back(since(step_begin));
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int time_steps(const Options& options) {
  const Result<LoadedConfig> loaded =
      load_config({.files = {options.config}, .overrides = options.overrides});
  if (!loaded.ok()) throw std::invalid_argument(loaded.error().message);
  const Result<RunPlan> plan =
      make_plan(loaded->config, {.num_cores = int(std::thread::hardware_concurrency())});
  if (!plan.ok()) throw std::invalid_argument(plan.error().message);

  ThreadTeam team(plan->num_threads);
  const Tensor workspace(DType::U8, {plan->num_threads * kWorkspaceBytesPerThread});
  Stream stream(team, {workspace.ref().as<std::byte>(), size_t(workspace.ref().bytes())});
  BareSequence sequence(*plan, stream, cpu_kernels(supported_isas().back()));
  const SyntheticSource source(loaded->config.run.seed, plan->model.vocab_size);
  double loss = 0.0;
  const double step_s = median_step_seconds(options.seconds, [&] { loss = sequence.step(source); });
  const nlohmann::json line = {{"program", "bare"},
                               {"config", options.config},
                               {"compute", name_of(plan->shape.compute)},
                               {"threads", plan->num_threads},
                               {"step_s", step_s},
                               {"tokens_per_s", double(plan->tokens_per_step()) / step_s},
                               {"loss", loss},
                               {"rss_bytes", peak_resident_bytes()}};
  fmt::print("{}\n", json_text(line));
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::time_steps(trireme::parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_sequence: {}\n", error.what());
    return 2;
  }
}
