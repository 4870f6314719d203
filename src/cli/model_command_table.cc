// The table of commands that use a trained model.

#include <memory>

#include "cli/checkpoint_command.h"
#include "cli/checkpoint_interchange_command.h"
#include "cli/command_table.h"
#include "cli/eval_command.h"
#include "cli/generate_command.h"
#include "cli/open_model.h"
#include "cli/stored_output.h"
#include "cli/text_arguments.h"

namespace trireme {

Command generate_command() {
  auto options = std::make_shared<GenerateOptions>();
  return {
      .name = "generate",
      .summary = "Continue a prompt with a trained model.",
      .details =
          "The text goes to standard output. Standard error gets the speed of reading the prompt, "
          "up to the first token, and the speed of the tokens after it. A prompt that is longer "
          "than the context of the model (model.seq_len) is cut to its last tokens, which fill "
          "half of the context. A context that becomes full goes on with its later half. Standard "
          "error says both. Up to 16 prompts of --prompts are continued at once, with q8_0 up to "
          "4, because the weights are then read once for all of them. Fewer are continued at once "
          "if their caches need too much memory, and one with --speed. Prompt K has the text that "
          "it has alone with the seed N + K - 1.",
      .arguments = {{.name = "MODEL",
                     .doc = "a checkpoint, also one of a store, a run directory, whose newest "
                            "checkpoint is used, RUN_DIR/best, its checkpoint with the lowest "
                            "validation loss, or a model that checkpoint import reads",
                     .target = &options->model,
                     .required = false,
                     .completion = Completion::Folder}},
      .options = {{.name = "checkpoint",
                   .letter = 'm',
                   .value_name = "DIR",
                   .doc = "the model, if it is not named as an argument",
                   .target = &options->checkpoint,
                   .completion = Completion::Folder},
                  {.name = "precision",
                   .value_name = "DTYPE",
                   .doc = "number format of weights and computation; by default that of the model. "
                          "q8_0: matrices as whole numbers of one byte with a scale for each 32, "
                          "which halves what a token reads; the rest, such as the matrices of "
                          "experts, as the model has it; while it loads, memory holds both",
                   .target = &options->precision,
                   .choices = {"fp32", "bf16", "fp16", kQuantizedPrecision}},
                  tokenizer_option(options->tokenizer),
                  {.name = "prompt",
                   .letter = 'p',
                   .value_name = "TEXT",
                   .doc = "the text to continue",
                   .target = &options->prompt},
                  {.name = "file",
                   .value_name = "FILE",
                   .doc = "read the prompt from this file; - means standard input",
                   .target = &options->prompt_file,
                   .completion = Completion::File},
                  {.name = "prompts",
                   .letter = 'f',
                   .value_name = "FILE",
                   .doc = "continue each line of this file that is not empty; - means standard "
                          "input",
                   .target = &options->prompts_file,
                   .completion = Completion::File},
                  binary_option(options->is_binary_read),
                  {.name = "tokens",
                   .letter = 'n',
                   .value_name = "N",
                   .doc = "number of tokens to generate",
                   .target = &options->num_tokens},
                  {.name = "temp",
                   .value_name = "T",
                   .doc = "temperature; 0: always take the likeliest token",
                   .target = &options->temperature},
                  {.name = "top-k",
                   .value_name = "K",
                   .doc = "draw only from the K likeliest tokens; 0: all",
                   .target = &options->top_k},
                  {.name = "top-p",
                   .value_name = "P",
                   .doc = "draw only from the likeliest tokens whose probabilities add up to P",
                   .target = &options->top_p},
                  {.name = "repeat-penalty",
                   .value_name = "X",
                   .doc = "makes the last 64 tokens less likely: logits above 0 are divided by X, "
                          "the others multiplied; 1: off",
                   .target = &options->repeat_penalty},
                  {.name = "stop",
                   .value_name = "TEXT",
                   .doc = "end before this text",
                   .target = &options->stops},
                  {.name = "seed",
                   .letter = 's',
                   .value_name = "N",
                   .doc = "random seed; the same seed gives the same text",
                   .target = &options->seed},
                  {.name = "speed",
                   .value_name = "FILE",
                   .doc = "write the measured times of one prompt after the other as JSON, as "
                          "pipelines of serve-plan read them",
                   .target = &options->speed_file,
                   .completion = Completion::File},
                  threads_option(options->threads)},
      .examples = {"trireme generate runs/demo -p 'It is a truth' -n 100 --temp 0.8",
                   "trireme generate runs/demo/best -p 'Dear ' --stop '.' --repeat-penalty 1.1",
                   "trireme generate runs/demo -f prompts.txt -n 50",
                   "trireme generate gpt2.bin --tokenizer gpt2-hf/ -p 'It is a truth'"},
      .run = [options](CommandIo& io) { return run_generate(*options, io); }};
}

Command eval_command() {
  auto options = std::make_shared<EvalOptions>();
  return {
      .name = "eval",
      .summary =
          "Measure a model on all of a text, or of a set of images: loss, bits per byte, "
          "perplexity, top-1.",
      .details =
          "Every token but the first is predicted once, in windows of model.seq_len tokens, of "
          "which "
          "the last may be shorter. The tokens are those that data prepare makes of the text, with "
          "the tokenizer of the checkpoint. The numbers are the same on every layout: dp, pp and "
          "threads change no bit, tp and cp only the last digits. One rank evaluates unless "
          "--ranks, --set or mpirun say otherwise. A net of images classifies every image of the "
          "set once, of the test images if its format tells them apart (docs/images.md).",
      .arguments = {{.name = "MODEL",
                     .doc = "a checkpoint, also an imported one or one of a store "
                            "(store://NAME/RUN/checkpoints/STEP), a run directory, whose newest "
                            "checkpoint is used, or RUN_DIR/best",
                     .target = &options->model,
                     .completion = Completion::Folder},
                    {.name = "DATA",
                     .doc = "a text file or folder, or a token file of data prepare; "
                            "store://NAME/PATH is a file of a store",
                     .target = &options->data,
                     .completion = Completion::File}},
      .options = {set_option(options->overrides),
                  ranks_option(options->ranks),
                  {.name = "format",
                   .value_name = "FORMAT",
                   .doc = "format of the text; auto chooses by the file names",
                   .target = &options->format,
                   .choices = {"auto", "text", "lines", "jsonl"}},
                  {.name = "field",
                   .value_name = "NAME",
                   .doc = "for JSON lines: the field that holds the text",
                   .target = &options->field},
                  {.name = "binary",
                   .doc = "also read a file that is not text, byte for byte",
                   .target = &options->is_binary_read},
                  json_option(options->json)},
      .examples = {"trireme eval runs/demo demo/data/val.tok",
                   "trireme eval runs/demo/best book.txt --ranks 2 --set parallel.pp=2"},
      .run = [options](CommandIo& io) { return run_eval(*options, io); }};
}

namespace {

Command checkpoint_import_command() {
  auto options = std::make_shared<CheckpointImportOptions>();
  return {
      .name = "import",
      .summary = "Convert a model of another program into a checkpoint.",
      .details = "The command reads the result back and compares weights and logits bit for bit.",
      .arguments = {{.name = "DIR_OR_FILE",
                     .doc =
                         "a Hugging Face folder, a GGUF file, a .bin of llm.c, or a .safetensors "
                         "file of torchvision's ResNet-50; with --adapters also a checkpoint",
                     .target = &options->path,
                     .completion = Completion::File}},
      .options = {{.name = "out",
                   .letter = 'o',
                   .value_name = "CHECKPOINT",
                   .doc = "the folder of the new checkpoint, also store://NAME/PATH",
                   .target = &options->out,
                   .completion = Completion::Folder},
                  {.name = "adapters",
                   .value_name = "DIR",
                   .doc = "a folder of Hugging Face's PEFT with LoRA adapters for this model "
                          "(adapter_config.json, adapter_model.safetensors)",
                   .target = &options->adapters,
                   .completion = Completion::Folder},
                  {.name = "trainable",
                   .doc = "add an initial state of the optimizer, so that train --resume can start "
                          "from this checkpoint once --set data.train=FILE names what to train on",
                   .target = &options->is_trainable},
                  threads_option(options->threads)},
      .examples = {"trireme checkpoint import gpt2/ --out checkpoints/gpt2"},
      .run = [options](CommandIo& io) -> Result<int> {
        TRIREME_TRY_DONE(require_option(options->out, "--out"));
        return with_stored_output(options->out, {}, io,
                                  [options, &io] { return run_checkpoint_import(*options, io); });
      }};
}

Command checkpoint_export_command() {
  auto options = std::make_shared<CheckpointExportOptions>();
  return {
      .name = "export",
      .summary = "Convert the model of a checkpoint for another program.",
      .details =
          "The command reads the result back and compares weights and logits. If the format cannot "
          "hold the model, the exit code is 3. LoRA adapters (model.lora_rank) are merged into "
          "their matrices; peft writes the adapters alone.",
      .arguments = {{.name = "CHECKPOINT",
                     .doc = "a checkpoint, also one of a store, or a run directory, whose newest "
                            "checkpoint is used",
                     .target = &options->path,
                     .completion = Completion::Folder}},
      .options = {{.name = "format",
                   .value_name = "FORMAT",
                   .doc =
                       "a Hugging Face folder, a GGUF file for llama.cpp, a .bin file of llm.c, "
                       "a folder of Hugging Face's PEFT, or a .safetensors file of torchvision's "
                       "ResNet-50",
                   .target = &options->format,
                   .choices = {"hf", "gguf", "llmc", "peft", "torchvision"}},
                  {.name = "dtype",
                   .value_name = "DTYPE",
                   .doc = "dtype of the matrices in the file; q8_0 only for GGUF",
                   .target = &options->dtype,
                   .choices = {"fp32", "fp16", "bf16", "q8_0"}},
                  {.name = "out",
                   .letter = 'o',
                   .value_name = "PATH",
                   .doc = "the folder or file to write, also store://NAME/PATH",
                   .target = &options->out,
                   .completion = Completion::File},
                  threads_option(options->threads)},
      .examples = {"trireme checkpoint export runs/demo --format hf --out demo-hf"},
      .run = [options](CommandIo& io) -> Result<int> {
        TRIREME_TRY_DONE(require_option(options->out, "--out"));
        return with_stored_output(options->out, {}, io,
                                  [options, &io] { return run_checkpoint_export(*options, io); });
      }};
}

Command checkpoint_logits_command() {
  auto options = std::make_shared<CheckpointLogitsOptions>();
  return {.name = "logits",
          .summary =
              "Print the logits after each of a few tokens, to compare them with another program.",
          .arguments = {{.name = "MODEL",
                         .doc = "a checkpoint, also one of a store, a run directory, or a model of "
                                "another program",
                         .target = &options->path,
                         .completion = Completion::File}},
          .options = {{.name = "tokens",
                       .value_name = "LIST",
                       .doc = "token numbers, separated by spaces or commas",
                       .target = &options->tokens},
                      threads_option(options->threads)},
          .examples = {"trireme checkpoint logits runs/demo --tokens 1,2,3"},
          .run = [options](CommandIo& io) { return run_checkpoint_logits(*options, io); }};
}

}  // namespace

Command checkpoint_command() {
  const auto subcommand = [](const char* name, const char* summary, auto run) -> Command {
    auto options = std::make_shared<CheckpointOptions>();
    return {.name = name,
            .summary = summary,
            .arguments = {{.name = "DIR",
                           .doc = "a checkpoint, also one of a store "
                                  "(store://NAME/RUN/checkpoints/STEP), or a run directory, whose "
                                  "newest checkpoint is used",
                           .target = &options->path,
                           .completion = Completion::Folder}},
            .options = {json_option(options->json)},
            .run = [options, run](CommandIo& io) { return run(*options, io); }};
  };
  return {
      .name = "checkpoint",
      .summary = "Inspect, verify, import and export checkpoints.",
      .subcommands = {
          subcommand("inspect", "List the contents of a checkpoint.", run_checkpoint_inspect),
          subcommand("verify", "Read every byte and check every checksum.", run_checkpoint_verify),
          checkpoint_import_command(), checkpoint_export_command(), checkpoint_logits_command()}};
}

}  // namespace trireme
