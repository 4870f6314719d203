#include "jobs/import_megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "jobs/import_forms.h"

namespace trireme {
namespace {

// Settings that ours lacks. An empty reason says that a setting is harmless although a pattern
// below would match it.
constexpr ForeignRefusal kMegatronRefusals[] = {
    {"--yaml-cfg", "", "the model is in another file", "write its settings as flags"},
    {"--use-checkpoint-args", "", "the model is in a checkpoint", "write its sizes as flags"},
    {"--use-mp-args-from-checkpoint-args", "", "degrees are in a checkpoint",
     "write them as flags"},
    {"--moe-layer-freq", "1", "a model without --num-experts has no such layers"},
    {"--moe-router-dtype", "", ""},
    {"--moe-per-layer-logging", "", ""},
    {"--moe-permute-fusion", "", ""},
    {"--moe-router-fusion", "", ""},
    {"--moe-router-force-load-balancing", "", ""},
    {"--moe-extended-tp", "", "experts are split in another way"},
    {"--ckpt-fully-parallel-*", "", ""},
    {"--fp8*", "", "products in fp8 are not priced", "price it with --bf16"},
    {"--fp4*", "", "products in fp4 are not priced", "price it with --bf16"},
    {"--tensor-parallel-num-weight-shards", "1", "weights are sharded in another way"},
    {"--num-layers-in-*-pipeline-stage", "", "these are keys of its library, not of its trainer",
     "use --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers"},
    {"--add-qkv-bias", "", "biases of a part of the linear layers are not supported"},
    {"--apply-layernorm-1p", "", ""},
    {"--rotary-percent", "1.0", "rotary positions of a part of a head are not supported"},
    {"--pipeline-model-parallel-comm-backend", "", ""},
    {"--overlap-*", "", ""},
    {"--no-overlap-*", "", ""},
    {"--distributed-*", "", ""},
    {"--use-precision-aware-optimizer", "", ""},
    {"--inference-*", "", ""},
    {"--rl-*", "", ""},
    {"*hybrid*", "", "layers of different kinds are not supported"},
    {"--mamba-*", "", "state-space layers are not supported"},
    {"--heterogeneous-*", "", "layers of different shapes are not supported"},
    {"--expert-tensor-*", "", ""},
    {"*-offload*", "", "we have no such offload"},
    {"*recompute*", "", "we have no such recomputation"},
    {"*-parallel-size", "1", "we have no such degree"},
    {"--moe-*", "", "our experts have no such setting"},
    {"*fsdp*", "", "we have no such sharding"},
    {"*-virtual-*", "", "we have no such stages"},
};

// Turns words into settings: "--key value", "--key=value", "--flag".
ForeignJob job_of(const ShellCommand& words, const std::string& source) {
  ForeignJob job;
  for (size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    if (!word.text.starts_with("--")) continue;
    const size_t equals = word.text.find('=');
    std::string key = word.text.substr(0, equals);
    std::replace(key.begin(), key.end(), '_', '-');
    std::string value = equals == std::string::npos ? "" : word.text.substr(equals + 1);
    while (i < words.size() && !words[i].text.starts_with("--")) {
      if (words[i].text.ends_with(".py")) break;  // what the launcher starts
      const std::string& part = words[i++].text;
      if (part == "$@" || part == "$*") continue;  // what the caller of the script adds
      value += (value.empty() ? "" : " ") + part;
    }
    const std::string where = fmt::format("{}:{}", source, word.line);
    const bool is_flag = value.empty() && equals == std::string::npos;
    job.set(key, is_flag ? ForeignValue(true) : value_of_word(value), where);
  }
  return job;
}

// The command of the script that starts the training, or the arguments that stand alone.
ShellCommand training_command(const std::vector<ShellCommand>& commands) {
  ShellCommand arguments, started;
  for (const ShellCommand& command : commands) {
    const bool is_loose = command[0].text.starts_with("-");
    const bool has_script = std::any_of(command.begin(), command.end(), [](const ShellWord& word) {
      return word.text.ends_with(".py") || word.text.ends_with("torchrun");
    });
    const bool has_keys = std::any_of(command.begin(), command.end(), [](const ShellWord& word) {
      return word.text.starts_with("--num-layers") || word.text.starts_with("--micro-batch-size");
    });
    if (is_loose) arguments.insert(arguments.end(), command.begin(), command.end());
    if (has_keys || (has_script && started.empty())) started = command;
  }
  return arguments.size() > started.size() ? arguments : started;
}

}  // namespace

Result<ImportedJob> import_megatron_words(const ShellCommand& words, const ImportRequest& request) {
  JobReader job(request, megatron_keys(), megatron_known_flags(), job_of(words, request.source));
  job.replace_overridden();
  const bool has_experts = read_megatron_model(job);
  if (has_experts) read_megatron_experts(job);
  job.has("--expert-tensor-parallel-size");  // a dense model has no use for it
  job.rows("batch.");
  read_megatron_layout(job);
  const bool is_bf16 = job.flag("--bf16"), is_fp16 = job.flag("--fp16");
  job.assign("precision.compute",
             std::string(is_bf16   ? "bf16"
                         : is_fp16 ? "fp16"
                                   : "fp32"),
             is_bf16 ? "--bf16" : "--fp16");
  job.rows("optim.");
  job.number("optim.decay_steps", "--lr-wsd-decay-iters");
  job.number("run.steps", "--train-iters");
  job.refuse_all(kMegatronRefusals);
  return job.finish();
}

Result<ImportedJob> import_megatron(const ImportRequest& request) {
  TRIREME_TRY(commands, parse_shell(request.text, request.source));
  const ShellCommand words = training_command(commands);
  if (words.empty()) {
    return usage(
        fmt::format("{}: no command with arguments of Megatron-LM, such as --num-layers; "
                    "name the script that starts the training",
                    request.source));
  }
  return import_megatron_words(words, request);
}

}  // namespace trireme
