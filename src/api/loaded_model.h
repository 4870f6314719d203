#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/load.h"
#include "comm/local/sole_rank.h"
#include "device/buffer.h"
#include "graph/param_table.h"
#include "kernels/own_stream.h"
#include "models/decoder.h"
#include "nn/ctx.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// How a model is held in memory. Without `compute` it computes in the dtype of the run or file.
struct ModelPrecision {
  std::optional<DType> compute = {};
  bool is_quantized = false;  // its matrices in bytes (models/quantized_params.h)
};

// The most texts that a model generates at once.
inline constexpr int64_t kMostSequences = 16;
// Caches of this size are accepted even if the weights are smaller.
inline constexpr int64_t kCacheBytes = int64_t{1} << 30;

// The threads that generation can use, of `num_threads`. If a product of one row has a single tile
// with every matrix of the model, other threads would only wait between prompts, and waking them
// costs more than they save.
int useful_threads(const std::vector<ParamSpec>& params, DType compute, int num_threads);

// The model of a checkpoint with everything needed to generate on this machine.
class LoadedModel {
 public:
  // `model_folders` are searched for a preset that the checkpoint's configuration names.
  static Result<std::unique_ptr<LoadedModel>> load(const Checkpoint& checkpoint, int num_threads,
                                                   const std::vector<std::string>& model_folders,
                                                   const ModelPrecision& precision = {});
  // Loads a file or folder of another program (interchange/foreign_model.h). The dtype of the file
  // is bf16 if it holds bf16, else fp32.
  struct ForeignLimits {
    int num_threads = 1;
    // The context in tokens, if the positions are rotary; limits the memory of the key-value cache.
    // 0: the context of the model.
    int64_t most_tokens = 0;
  };
  static Result<std::unique_ptr<LoadedModel>> load_foreign(const std::string& path,
                                                           const ForeignLimits& limits,
                                                           const ModelPrecision& precision = {});
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelSpec& model() const { return model_; }
  // Returns how many weights are held in bytes (ModelPrecision::is_quantized).
  int64_t num_in_bytes() const;
  // Returns the tokenizer, which this object owns. A Usage error if there is none.
  Result<const Tokenizer*> tokenizer() const;

  Ctx& ctx() { return ctx_; }
  Decoder& decoder() { return *decoder_; }
  // Gives the decoder sequences for `count` >= 1 texts. If they do not all fit, the texts take
  // equal turns. At most kMostSequences fit, QuantizedMatmulArgs::kFewRows of a quantized model,
  // and never more than model.seq_len. Their caches fit into kCacheBytes or into the size of the
  // weights, whichever is larger; one sequence always fits. All contexts are forgotten.
  void make_sequences(int64_t count);

 private:
  LoadedModel(std::string folder, const ModelSpec& model, DType compute, int num_threads);
  Frame params() const { return Frame(table_, memory_.data()); }
  // Ends the loading, once all parameters lie in memory.
  Status make_decoder(bool is_quantized);

  std::string folder_;
  ModelSpec model_;
  std::vector<ParamSpec> params_;
  TensorTable table_;
  Buffer memory_;
  std::unique_ptr<Tokenizer> tokenizer_;  // may be null
  std::string why_no_tokenizer_;          // the end of a message that begins with the folder
  OwnStream stream_;
  SoleRank rank_;
  Ctx ctx_;
  DType compute_;
  bool is_quantized_ = false;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace trireme
