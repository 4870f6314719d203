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

// The model of a checkpoint with everything needed to generate on this machine.
class LoadedModel {
 public:
  // `model_folders` are searched for a preset that the checkpoint's configuration names. The model
  // computes in `compute`; without it, in the dtype in which the run computed.
  static Result<std::unique_ptr<LoadedModel>> load(const Checkpoint& checkpoint, int num_threads,
                                                   const std::vector<std::string>& model_folders,
                                                   std::optional<DType> compute = {});
  // Loads a file or folder of another program (interchange/foreign_model.h). The model computes in
  // `compute`; without it, in bf16 if the file holds bf16, else in fp32.
  struct ForeignLimits {
    int num_threads = 1;
    // The context in tokens, if the positions are rotary; limits the memory of the key-value cache.
    // 0: the context of the model.
    int64_t most_tokens = 0;
  };
  static Result<std::unique_ptr<LoadedModel>> load_foreign(const std::string& path,
                                                           const ForeignLimits& limits,
                                                           std::optional<DType> compute = {});
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelSpec& model() const { return model_; }
  // Returns the tokenizer, which this object owns. A Usage error if there is none.
  Result<const Tokenizer*> tokenizer() const;

  Ctx& ctx() { return ctx_; }
  Decoder& decoder() { return *decoder_; }

 private:
  LoadedModel(std::string folder, const ModelSpec& model, DType compute, int num_threads);

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
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace trireme
