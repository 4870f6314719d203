#pragma once

#include <cstring>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "data/synthetic_source.h"
#include "kernels/kernel_table.h"
#include "planner/make_plan.h"
#include "train/kernel_choice.h"
#include "train/run_fixture.h"
#include "train/state_tensors.h"

namespace trireme {

inline RunPlan tiny_plan(const RunConfig& config) {
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return std::move(*plan);
}

// A model of which a step takes a millisecond.
inline RunConfig tiny_run(int dp, bool is_bf16 = false) {
  RunConfig config = some_run();
  config.model.layers = 1;
  config.model.d_model = 16;
  config.model.seq_len = 8;
  config.batch.global_sequences = 2 * dp;
  config.parallel.dp = dp;
  if (is_bf16) config.precision.compute = ComputeChoice::Bf16;
  return config;
}

inline RunConfig with_checks(RunConfig config) {
  config.run.check_state_every = 1;
  config.run.replay_every = 1;
  config.run.replay_elsewhere_every = 1;
  config.run.check_products_every = 1;
  return config;
}

// Injects single flipped bits, for the tests of checks for silent corruption.

enum class BitClass : uint8_t { Sign, Exponent, Mantissa };
inline constexpr BitClass kBitClasses[] = {BitClass::Sign, BitClass::Exponent, BitClass::Mantissa};
inline constexpr std::string_view kBitClassNames[] = {"sign", "exponent", "mantissa"};

// A bit of the class in an element of fp32 or bf16.
inline int bit_of(BitClass bits, DType dtype, std::mt19937_64& random) {
  const int width = 8 * int(size_of(dtype)), exponent = width - 9;
  if (bits == BitClass::Sign) return width - 1;
  if (bits == BitClass::Exponent) return exponent + int(random() % 8);
  return int(random() % uint64_t(exponent));
}

inline void flip_bit(const TensorRef& tensor, int64_t element, int bit) {
  auto* bytes = static_cast<unsigned char*>(tensor.data) + element * size_of(tensor.dtype);
  bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1u << (bit % 8)));
}

// Which bit is flipped.
struct Flip {
  TensorRef tensor;
  int64_t element = 0;
  int bit = 0;
  void apply() const { flip_bit(tensor, element, bit); }
};

inline Flip draw_flip(const std::vector<StateTensor>& tensors, BitClass bits,
                      std::mt19937_64& random) {
  const TensorRef& tensor = tensors[random() % tensors.size()].tensor_N;
  return {tensor, int64_t(random() % uint64_t(tensor.num_elements())),
          bit_of(bits, tensor.dtype, random)};
}

// The tensors whose names begin with `prefix`; parameters as layers read them have none.
inline std::vector<StateTensor> tensors_of_kind(const std::vector<StateTensor>& all,
                                                std::string_view prefix) {
  std::vector<StateTensor> chosen;
  for (const StateTensor& tensor : all) {
    const bool fits = prefix.empty() ? tensor.name.find('/') == std::string::npos
                                     : tensor.name.starts_with(prefix);
    if (fits) chosen.push_back(tensor);
  }
  return chosen;
}

inline const KernelTable& right_kernels() {
  return *choose_kernels(IsaChoice::Auto).value().kernels;
}

// A core with a defect: in every product of this form one element has a bit that is wrong in the
// same way each time.
template <int kBit, MatmulForm kForm>
void defective_matmul(Stream& stream, const MatmulArgs& args) {
  right_kernels().matmul(stream, args);
  if (args.form != kForm) return;
  flip_bit({args.c.data, args.c.dtype, Shape{args.c.cols}}, args.c.cols - 1, kBit);
}

template <int kBit, MatmulForm kForm>
const KernelTable& defective_kernels() {
  static const KernelTable kernels = [] {
    KernelTable table = right_kernels();
    table.matmul = defective_matmul<kBit, kForm>;
    return table;
  }();
  return kernels;
}

inline constexpr int kSmallBit = 9,
                     kHighBit = 30;  // of fp32: a mantissa bit, and one of the exponent

// A copy of a rank's state, to begin again from.
class KeptState {
 public:
  explicit KeptState(const std::vector<StateTensor>& tensors) : tensors_(tensors) {
    for (const StateTensor& tensor : tensors_) {
      const auto* data = static_cast<const char*>(tensor.tensor_N.data);
      copies_.emplace_back(data, data + bytes(tensor));
    }
  }
  void restore() const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      std::memcpy(tensors_[i].tensor_N.data, copies_[i].data(), copies_[i].size());
    }
  }
  bool is_unchanged() const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (std::memcmp(tensors_[i].tensor_N.data, copies_[i].data(), copies_[i].size()) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  static size_t bytes(const StateTensor& tensor) {
    return size_t(tensor.tensor_N.num_elements() * size_of(tensor.tensor_N.dtype));
  }
  std::vector<StateTensor> tensors_;
  std::vector<std::vector<char>> copies_;
};

// Tells when a sample is read, which a rank does directly before it computes with it, and when it
// is announced.
class WatchedSource : public TokenSource {
 public:
  explicit WatchedSource(int64_t vocab_size) : source_(1, vocab_size) {}
  std::function<void(uint64_t sample)> on_read;
  std::function<void(uint64_t first_sample, int64_t num_samples)> on_announced;

  int64_t vocab_size() const override { return source_.vocab_size(); }
  void read_sample(uint64_t sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    if (on_read) on_read(sample);
    source_.read_sample(sample, inputs, targets);
  }
  void will_read(uint64_t first_sample, int64_t num_samples) const override {
    if (on_announced) on_announced(first_sample, num_samples);
  }

 private:
  SyntheticSource source_;
};

}  // namespace trireme
