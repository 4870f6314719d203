#pragma once

#include <memory>
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
  // `model_folders` are searched for a preset that the checkpoint's configuration names.
  static Result<std::unique_ptr<LoadedModel>> load(const Checkpoint& checkpoint, int num_threads,
                                                   const std::vector<std::string>& model_folders);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelSpec& model() const { return model_; }
  // An error if the run was trained without a tokenizer.
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
  std::unique_ptr<Tokenizer> tokenizer_;  // absent: the run had none
  OwnStream stream_;
  SoleRank rank_;
  Ctx ctx_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace trireme
