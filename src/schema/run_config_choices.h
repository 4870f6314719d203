#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace trireme {

// A field of RUN.toml that is one of several names is an enum of one byte. Each enum has one table
// of names: the name of a value stands at the place of that value. Parsing, printing, help and the
// messages of refusals read this table.
using ChoiceNames = std::span<const std::string_view>;

template <typename E>
struct ChoiceTable;  // `names`, and `last`, the last value of the enum

enum class ModelFamily : uint8_t {
  Gpt2,
  Llama,
  Moe,
  ConvNet,
  AlexNet,
  Vgg16,
  ResNet50,
  WideResNet
};
template <>
struct ChoiceTable<ModelFamily> {
  static constexpr std::string_view names[] = {"gpt2",    "llama", "moe",      "conv_net",
                                               "alexnet", "vgg16", "resnet50", "wide_resnet"};
  static constexpr ModelFamily last = ModelFamily::WideResNet;
};
// Whether a net reads images; the others read tokens.
constexpr bool reads_images(ModelFamily family) { return family >= ModelFamily::ConvNet; }
constexpr bool has_batch_norms(ModelFamily family) {
  return reads_images(family) && family != ModelFamily::AlexNet && family != ModelFamily::Vgg16;
}

// Over which images a batch norm takes its mean and variance.
enum class NormBatch : uint8_t { MicroBatch, Step };
template <>
struct ChoiceTable<NormBatch> {
  static constexpr std::string_view names[] = {"micro_batch", "step"};
  static constexpr NormBatch last = NormBatch::Step;
};

// How rotary frequencies are stretched for longer contexts (model.rope_scaling_factor).
enum class RopeScaling : uint8_t { Llama3, Yarn };
template <>
struct ChoiceTable<RopeScaling> {
  static constexpr std::string_view names[] = {"llama3", "yarn"};
  static constexpr RopeScaling last = RopeScaling::Yarn;
};

// Default: the family's. It is written "" in RUN.toml.
enum class ActivationChoice : uint8_t { Default, GeluTanh, GeluErf, Relu, Relu2, Swiglu };
template <>
struct ChoiceTable<ActivationChoice> {
  static constexpr std::string_view names[] = {"",     "gelu_tanh", "gelu_erf",
                                               "relu", "relu2",     "swiglu"};
  static constexpr ActivationChoice last = ActivationChoice::Swiglu;
};

enum class NormChoice : uint8_t { Default, LayerNorm, RmsNorm };
template <>
struct ChoiceTable<NormChoice> {
  static constexpr std::string_view names[] = {"", "layer_norm", "rms_norm"};
  static constexpr NormChoice last = NormChoice::RmsNorm;
};

enum class PositionsChoice : uint8_t { Default, Learned, Rope };
template <>
struct ChoiceTable<PositionsChoice> {
  static constexpr std::string_view names[] = {"", "learned", "rope"};
  static constexpr PositionsChoice last = PositionsChoice::Rope;
};

enum class RouterType : uint8_t { Softmax, Sigmoid };
template <>
struct ChoiceTable<RouterType> {
  static constexpr std::string_view names[] = {"softmax", "sigmoid"};
  static constexpr RouterType last = RouterType::Sigmoid;
};

enum class DataSource : uint8_t { Files, Synthetic, Images };
template <>
struct ChoiceTable<DataSource> {
  static constexpr std::string_view names[] = {"files", "synthetic", "images"};
  static constexpr DataSource last = DataSource::Images;
};

enum class OptimizerKind : uint8_t { AdamW, Sgd, Muon };
template <>
struct ChoiceTable<OptimizerKind> {
  static constexpr std::string_view names[] = {"adamw", "sgd", "muon"};
  static constexpr OptimizerKind last = OptimizerKind::Muon;
};

// Range: rises geometrically from step to step, for a learning-rate range test.
enum class LrScheduleKind : uint8_t { Cosine, Linear, Constant, Wsd, Range };
template <>
struct ChoiceTable<LrScheduleKind> {
  static constexpr std::string_view names[] = {"cosine", "linear", "constant", "wsd", "range"};
  static constexpr LrScheduleKind last = LrScheduleKind::Range;
};

// Auto: the schedule that a search finds.
enum class ScheduleKind : uint8_t {
  Naive,
  Gpipe,
  OneFOneB,
  Interleaved,
  ZbH1,
  ZbH2,
  ZbV,
  Dualpipe,
  DualpipeV,
  Auto,
};
template <>
struct ChoiceTable<ScheduleKind> {
  static constexpr std::string_view names[] = {"naive", "gpipe", "1f1b",     "interleaved", "zb_h1",
                                               "zb_h2", "zb_v",  "dualpipe", "dualpipev",   "auto"};
  static constexpr ScheduleKind last = ScheduleKind::Auto;
};

enum class GradSync : uint8_t { AllReduce, ParameterServer };
template <>
struct ChoiceTable<GradSync> {
  static constexpr std::string_view names[] = {"all_reduce", "parameter_server"};
  static constexpr GradSync last = GradSync::ParameterServer;
};

// How queries meet keys whose tokens lie on other context-parallel ranks: keys and values go round
// a ring, or every rank takes part of the heads of whole sequences.
enum class ContextExchange : uint8_t { Ring, AllToAll };
template <>
struct ChoiceTable<ContextExchange> {
  static constexpr std::string_view names[] = {"ring", "all_to_all"};
  static constexpr ContextExchange last = ContextExchange::AllToAll;
};

// How the tp ranks share out a layer: each has all weights and a part of the samples, or a part of
// the weights and all samples, or all weights and a part of the rows of each image.
enum class LayerStrategy : uint8_t { Data, Tensor, Spatial };
template <>
struct ChoiceTable<LayerStrategy> {
  static constexpr std::string_view names[] = {"data", "tensor", "spatial"};
  static constexpr LayerStrategy last = LayerStrategy::Spatial;
};

// Fit: the planner chooses the values one by one.
enum class Recompute : uint8_t { None, Selective, Full, Fit };
template <>
struct ChoiceTable<Recompute> {
  static constexpr std::string_view names[] = {"none", "selective", "full", "fit"};
  static constexpr Recompute last = Recompute::Fit;
};

enum class OffloadChoice : uint8_t { None, Optimizer, All };
template <>
struct ChoiceTable<OffloadChoice> {
  static constexpr std::string_view names[] = {"none", "optimizer", "all"};
  static constexpr OffloadChoice last = OffloadChoice::All;
};

enum class ComputeChoice : uint8_t { Fp32, Bf16, Fp16 };
template <>
struct ChoiceTable<ComputeChoice> {
  static constexpr std::string_view names[] = {"fp32", "bf16", "fp16"};
  static constexpr ComputeChoice last = ComputeChoice::Fp16;
};
constexpr DType compute_dtype(ComputeChoice compute) {
  return compute == ComputeChoice::Fp32   ? DType::F32
         : compute == ComputeChoice::Bf16 ? DType::BF16
                                          : DType::F16;
}

// Of gradients and of the optimizer's moments.
enum class StateChoice : uint8_t { Fp32, Bf16 };
template <>
struct ChoiceTable<StateChoice> {
  static constexpr std::string_view names[] = {"fp32", "bf16"};
  static constexpr StateChoice last = StateChoice::Bf16;
};
constexpr DType state_dtype(StateChoice state) {
  return state == StateChoice::Fp32 ? DType::F32 : DType::BF16;
}

enum class Reproducible : uint8_t { Fixed, Layout, Mesh };
template <>
struct ChoiceTable<Reproducible> {
  static constexpr std::string_view names[] = {"fixed", "layout", "mesh"};
  static constexpr Reproducible last = Reproducible::Mesh;
};

// The number by which a run chooses its best checkpoint. None and Off both keep no best checkpoint;
// they are written "none" and "".
enum class BestChoice : uint8_t { ValLoss, None, Off };
template <>
struct ChoiceTable<BestChoice> {
  static constexpr std::string_view names[] = {"val_loss", "none", ""};
  static constexpr BestChoice last = BestChoice::Off;
};

// What a run does after a step whose loss is far above those before it.
enum class SpikeChoice : uint8_t { None, Rollback };
template <>
struct ChoiceTable<SpikeChoice> {
  static constexpr std::string_view names[] = {"none", "rollback"};
  static constexpr SpikeChoice last = SpikeChoice::Rollback;
};

enum class BackendChoice : uint8_t { Local, Mpi, Tcp };
template <>
struct ChoiceTable<BackendChoice> {
  static constexpr std::string_view names[] = {"local", "mpi", "tcp"};
  static constexpr BackendChoice last = BackendChoice::Tcp;
};

enum class IsaChoice : uint8_t { Auto, Avx2, Avx512, Avx512Bf16, AmxBf16, Reference };
template <>
struct ChoiceTable<IsaChoice> {
  static constexpr std::string_view names[] = {"auto",        "avx2",     "avx512",
                                               "avx512_bf16", "amx_bf16", "reference"};
  static constexpr IsaChoice last = IsaChoice::Reference;
};

template <typename E>
concept Choice = requires {
  ChoiceTable<E>::names;
};

template <Choice E>
constexpr ChoiceNames choice_names() {
  static_assert(sizeof(E) == 1 &&
                std::size(ChoiceTable<E>::names) == static_cast<size_t>(ChoiceTable<E>::last) + 1);
  return ChoiceTable<E>::names;
}

template <Choice E>
constexpr std::string_view name_of(E value) {
  return choice_names<E>()[static_cast<size_t>(value)];
}

// The value of a name, or nullopt if no value has this name.
template <Choice E>
constexpr std::optional<E> choice_of(std::string_view name) {
  const ChoiceNames names = choice_names<E>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace trireme
