// The table of the commands for text and schedules, with their options.

#include <memory>
#include <ostream>

#include "cli/command_table.h"
#include "cli/compare_schedules.h"
#include "cli/data_command.h"
#include "cli/images_command.h"
#include "cli/schedule_command.h"
#include "cli/stored_output.h"
#include "cli/text_options.h"
#include "cli/tokenizer_command.h"
#include "cli/tokenizer_interchange_command.h"
#include "program/make_schedule.h"

namespace trireme {
namespace {

Argument text_argument(std::vector<std::string>& paths, bool required = true) {
  return {.name = "TEXT",
          .doc =
              "files or folders, or files of a store (store://NAME/PATH); - means standard "
              "input",
          .target = &paths,
          .required = required,
          .completion = Completion::File};
}

// Option values that are words, beside the options struct that receives the matching enumerators.
template <typename Options>
struct WithWords {
  Options options;
  std::string format = "auto";
  std::string held_out = "auto";
};

Option format_option(std::string& format) {
  return {.name = "format",
          .value_name = "FORMAT",
          .doc = "format of the text; auto chooses by the file names",
          .target = &format,
          .choices = {"auto", "text", "lines", "jsonl"}};
}

Option field_option(std::string& field) {
  return {.name = "field",
          .value_name = "NAME",
          .doc = "for JSON lines: the field that holds the text",
          .target = &field};
}

Option binary_option(bool& is_binary_read) {
  return {.name = "binary",
          .doc = "also read files that are not text, byte for byte",
          .target = &is_binary_read};
}

Option tokenizer_option(std::string& tokenizer) {
  return {.name = "tokenizer",
          .value_name = "FILE",
          .doc =
              "a tokenizer.json, also one of a store, a tokenizer file of another program, or "
              "the word byte",
          .target = &tokenizer,
          .completion = Completion::File};
}

Status require(const std::string& value, const char* option) {
  if (!value.empty()) return Done{};
  return Error{ErrorKind::Usage, std::string(option) + " is missing"};
}

Command tokenizer_train_command() {
  auto rows = std::make_shared<WithWords<TokenizerTrainOptions>>();
  TokenizerTrainOptions& options = rows->options;
  return {
      .name = "train",
      .summary = "Train a tokenizer on text.",
      .arguments = {text_argument(options.input.paths)},
      .options = {{.name = "kind",
                   .value_name = "KIND",
                   .doc = "tokens are byte-level BPE, characters, or bytes",
                   .target = &options.kind,
                   .choices = {"bpe", "char", "byte"}},
                  {.name = "vocab-size",
                   .value_name = "N",
                   .doc =
                       "bpe: number of tokens, which are the bytes, the merges and <|endoftext|>",
                   .target = &options.vocab_size},
                  {.name = "min-pair-count",
                   .value_name = "N",
                   .doc = "bpe: pairs that occur less often are not merged",
                   .target = &options.min_pair_count},
                  {.name = "out",
                   .letter = 'o',
                   .value_name = "FILE",
                   .doc = "the file to write, also store://NAME/PATH; by default tokenizer.json",
                   .target = &options.out,
                   .completion = Completion::File},
                  format_option(rows->format),
                  field_option(options.input.field),
                  binary_option(options.input.is_binary_read),
                  threads_option(options.num_threads)},
      .examples = {"trireme tokenizer train text/ --vocab-size 8192 --out tokenizer.json"},
      .run = [rows](CommandIo& io) -> Result<int> {
        TRIREME_TRY(format, parse_text_format(rows->format));
        rows->options.input.format = format;
        rows->options.input.open_input = io.open_input;
        return with_stored_output(rows->options.out, OutputRule::MustBeNew, io, [rows, &io] {
          return exit_code_of(run_tokenizer_train(rows->options, io.out, io.err));
        });
      }};
}

Command tokenizer_encode_command() {
  auto rows = std::make_shared<WithWords<TokenizerEncodeOptions>>();
  TokenizerEncodeOptions& options = rows->options;
  options.input.paths.clear();  // the arguments replace the default "-"
  return {.name = "encode",
          .summary = "Print the token numbers of text, one line per document.",
          .arguments = {text_argument(options.input.paths, /*required=*/false)},
          .options = {tokenizer_option(options.tokenizer),
                      {.name = "end-of-text",
                       .doc = "print <|endoftext|> after each document",
                       .target = &options.end_of_text},
                      {.name = "special",
                       .doc = "recognize special tokens such as <|endoftext|> in the text",
                       .target = &options.special},
                      format_option(rows->format),
                      field_option(options.input.field),
                      binary_option(options.input.is_binary_read),
                      threads_option(options.num_threads)},
          .run = [rows](CommandIo& io) -> Result<int> {
            TRIREME_TRY_DONE(require(rows->options.tokenizer, "--tokenizer"));
            TRIREME_TRY(format, parse_text_format(rows->format));
            rows->options.input.format = format;
            rows->options.input.open_input = io.open_input;
            if (rows->options.input.paths.empty()) rows->options.input.paths = {"-"};
            return exit_code_of(run_tokenizer_encode(rows->options, io.out, io.err));
          }};
}

Command tokenizer_decode_command() {
  auto options = std::make_shared<TokenizerDecodeOptions>();
  return {.name = "decode",
          .summary = "Print the text of tokens, byte for byte.",
          .arguments = {{.name = "TOKENS",
                         .doc = "a token file, or a text file of token numbers separated by white "
                                "space; by default standard input",
                         .target = &options->input,
                         .required = false,
                         .completion = Completion::File}},
          .options = {tokenizer_option(options->tokenizer)},
          .run = [options](CommandIo& io) -> Result<int> {
            TRIREME_TRY_DONE(require(options->tokenizer, "--tokenizer"));
            options->open_input = io.open_input;
            return exit_code_of(run_tokenizer_decode(*options, io.out, io.err));
          }};
}

Command tokenizer_check_command() {
  auto rows = std::make_shared<WithWords<TokenizerCheckOptions>>();
  TokenizerCheckOptions& options = rows->options;
  return {
      .name = "check",
      .summary = "Encode text, decode it again, and compare every byte.",
      .arguments = {text_argument(options.input.paths)},
      .options = {tokenizer_option(options.tokenizer), format_option(rows->format),
                  field_option(options.input.field), binary_option(options.input.is_binary_read),
                  threads_option(options.num_threads)},
      .run = [rows](CommandIo& io) -> Result<int> {
        TRIREME_TRY_DONE(require(rows->options.tokenizer, "--tokenizer"));
        TRIREME_TRY(format, parse_text_format(rows->format));
        rows->options.input.format = format;
        rows->options.input.open_input = io.open_input;
        return exit_code_of(run_tokenizer_check(rows->options, io.out, io.err));
      }};
}

Command tokenizer_import_command() {
  auto options = std::make_shared<TokenizerImportOptions>();
  return {.name = "import",
          .summary = "Convert a byte-level BPE tokenizer of another program into a tokenizer.json.",
          .details =
              "All commands also accept these files directly as --tokenizer. The options of this "
              "command supply what such a file does not say.",
          .arguments = {{.name = "FILE_OR_DIR",
                         .doc = "tokenizer.json of Hugging Face, vocab.json beside merges.txt, "
                                "*.tiktoken, or a folder with one of them",
                         .target = &options->path,
                         .completion = Completion::File}},
          .options = {{.name = "out",
                       .letter = 'o',
                       .value_name = "FILE",
                       .doc = "the file to write, also store://NAME/PATH; by default "
                              "tokenizer.json",
                       .target = &options->out,
                       .completion = Completion::File},
                      {.name = "pre-tokenizer",
                       .value_name = "NAME",
                       .doc = "rule that splits text into words, if the file does not name one",
                       .target = &options->pre_tokenizer,
                       .choices = {"gpt2", "llama3"}},
                      {.name = "end-of-text",
                       .value_name = "TEXT",
                       .doc = "the special token after every document; by default <|endoftext|>, "
                              "<|end_of_text|> or </s>",
                       .target = &options->end_of_text}},
          .examples = {"trireme tokenizer import gpt2/tokenizer.json --out gpt2.json"},
          .run = [options](CommandIo& io) {
            return with_stored_output(options->out, OutputRule::MustBeNew, io, [options, &io] {
              return exit_code_of(run_tokenizer_import(*options, io.out));
            });
          }};
}

Command tokenizer_export_command() {
  auto options = std::make_shared<TokenizerExportOptions>();
  return {.name = "export",
          .summary = "Write the files of a Hugging Face tokenizer.",
          .options = {tokenizer_option(options->tokenizer),
                      {.name = "out",
                       .letter = 'o',
                       .value_name = "DIR",
                       .doc = "the folder to write, also store://NAME/PATH",
                       .target = &options->out,
                       .completion = Completion::Folder},
                      {.name = "seq-len",
                       .value_name = "N",
                       .doc = "context length of the model, in tokens",
                       .target = &options->seq_len}},
          .run = [options](CommandIo& io) -> Result<int> {
            TRIREME_TRY_DONE(require(options->tokenizer, "--tokenizer"));
            TRIREME_TRY_DONE(require(options->out, "--out"));
            return with_stored_output(options->out, OutputRule::MustBeNew, io, [options, &io] {
              return exit_code_of(run_tokenizer_export(*options, io));
            });
          }};
}

Command data_prepare_command() {
  auto rows = std::make_shared<WithWords<DataPrepareOptions>>();
  DataPrepareOptions& options = rows->options;
  return {
      .name = "prepare",
      .summary = "Turn text into token files for training and validation.",
      .details =
          "The command writes train.tok, val.tok and tokenizer.json. If it is interrupted, the "
          "same command resumes where it stopped. Files for a store are first written below "
          "outputs/NAME/PATH.",
      .arguments = {text_argument(options.input.paths)},
      .options = {tokenizer_option(options.tokenizer),
                  {.name = "out",
                   .letter = 'o',
                   .value_name = "DIR",
                   .doc = "the folder to write, also store://NAME/PATH; by default data",
                   .target = &options.out,
                   .completion = Completion::Folder},
                  {.name = "val-fraction",
                   .value_name = "X",
                   .doc = "fraction of the text that is kept for validation; 0: none",
                   .target = &options.val_fraction},
                  {.name = "held-out",
                   .value_name = "WHAT",
                   .doc = "what is kept for validation, random documents or the end of the text",
                   .target = &rows->held_out,
                   .choices = {"auto", "documents", "tail"}},
                  {.name = "seed",
                   .value_name = "N",
                   .doc = "random seed for the choice of documents",
                   .target = &options.seed},
                  {.name = "format",
                   .value_name = "FORMAT",
                   .doc = "format of the text; auto chooses by the file names; chat: JSON lines "
                          "with prompt and completion, or with messages",
                   .target = &rows->format,
                   .choices = {"auto", "text", "lines", "jsonl", "chat"}},
                  {.name = "template",
                   .value_name = "TEXT",
                   .doc = "for chat: how a message is written, with {role} and {content}; \\n is a "
                          "line break; by default that of ChatML",
                   .target = &options.chat_template},
                  field_option(options.input.field),
                  binary_option(options.input.is_binary_read),
                  threads_option(options.num_threads)},
      .examples = {"trireme data prepare text/ --tokenizer tokenizer.json --out data",
                   "trireme data prepare chats.jsonl --format chat --tokenizer tokenizer.json",
                   "trireme data prepare store://demo/book.txt.gz --tokenizer byte --out "
                   "store://demo/data"},
      .run = [rows](CommandIo& io) -> Result<int> {
        TRIREME_TRY_DONE(require(rows->options.tokenizer, "--tokenizer"));
        TRIREME_TRY(format, parse_text_format(rows->format));
        TRIREME_TRY(held_out, parse_held_out(rows->held_out));
        rows->options.input.format = format;
        rows->options.held_out = held_out;
        rows->options.input.open_input = io.open_input;
        return with_stored_output(rows->options.out, OutputRule::MustBeNew, io, [rows, &io] {
          return exit_code_of(run_data_prepare(rows->options, io.out, io.err));
        });
      }};
}

Command data_inspect_command() {
  auto options = std::make_shared<DataInspectOptions>();
  return {.name = "inspect",
          .summary = "Print what a token file holds.",
          .arguments = {{.name = "FILE.tok",
                         .doc = "the token file, or a .bin file of nanoGPT or llm.c; "
                                "store://NAME/PATH is a file of a store",
                         .target = &options->file,
                         .completion = Completion::File}},
          .options = {{.name = "verify",
                       .doc = "verify all checksums; files below 64 MiB are always verified",
                       .target = &options->verify},
                      json_option(options->json),
                      {.name = "baselines",
                       .value_name = "TRAIN.tok",
                       .doc = "print the cross-entropy of FILE.tok under unigram and bigram counts "
                              "of this training file",
                       .target = &options->baselines,
                       .completion = Completion::File},
                      {.name = "head",
                       .value_name = "N",
                       .doc = "print the first N tokens as text; needs --tokenizer",
                       .target = &options->head},
                      tokenizer_option(options->tokenizer)},
          .run = [options](CommandIo& io) { return exit_code_of(run_data_inspect(*options, io)); }};
}

Command data_images_command() {
  auto options = std::make_shared<DataImagesOptions>();
  return {.name = "images",
          .summary = "Read a set of images and print what it holds.",
          .details =
              "PATH is a folder of MNIST's idx files or of CIFAR's binary files, a folder with a "
              "folder of PNG and JPEG files for each class, or scikit-learn's table of digits.",
          .arguments = {{.name = "PATH",
                         .doc = "the folder, or a .csv or .csv.gz file",
                         .target = &options->path,
                         .completion = Completion::File}},
          .options = {{.name = "split",
                       .value_name = "SPLIT",
                       .doc = "which images, where the format has both",
                       .target = &options->split,
                       .choices = {"train", "test"}},
                      {.name = "size",
                       .value_name = "N",
                       .doc = "images of a folder are scaled and cut to N x N pixels",
                       .target = &options->size},
                      threads_option(options->num_threads),
                      json_option(options->json)},
          .run = [options](CommandIo& io) {
            return exit_code_of(run_data_images(*options, io.out, io.err));
          }};
}

Command data_import_command() {
  auto options = std::make_shared<DataImportOptions>();
  return {.name = "import",
          .summary = "Convert tokens of nanoGPT or llm.c into a token file.",
          .arguments = {{.name = "FILE.bin",
                         .doc = "the tokens, also a file of a store; a header of llm.c is "
                                "recognized",
                         .target = &options->file,
                         .completion = Completion::File}},
          .options = {tokenizer_option(options->tokenizer),
                      {.name = "vocab-size",
                       .value_name = "N",
                       .doc = "vocabulary size; by default that of the tokenizer",
                       .target = &options->vocab_size},
                      {.name = "out",
                       .letter = 'o',
                       .value_name = "FILE.tok",
                       .doc = "the token file to write, also store://NAME/PATH",
                       .target = &options->out,
                       .completion = Completion::File}},
          .examples = {"trireme data import train.bin --tokenizer gpt2.json --out train.tok"},
          .run = [options](CommandIo& io) -> Result<int> {
            TRIREME_TRY_DONE(require(options->out, "--out"));
            return with_stored_output(options->out, OutputRule::MayExist, io, [options, &io] {
              return exit_code_of(run_data_import(*options, io));
            });
          }};
}

Command data_export_command() {
  auto options = std::make_shared<DataExportOptions>();
  return {.name = "export",
          .summary = "Convert a token file for nanoGPT or llm.c.",
          .arguments = {{.name = "FILE.tok",
                         .doc = "the token file, also one of a store (store://NAME/PATH)",
                         .target = &options->file,
                         .completion = Completion::File}},
          .options = {{.name = "format",
                       .value_name = "FORMAT",
                       .doc = "16-bit tokens without a header, or tokens with the header of llm.c",
                       .target = &options->format,
                       .choices = {"nanogpt", "llmc"}},
                      {.name = "out",
                       .letter = 'o',
                       .value_name = "FILE.bin",
                       .doc = "the file to write, also store://NAME/PATH",
                       .target = &options->out,
                       .completion = Completion::File}},
          .run = [options](CommandIo& io) -> Result<int> {
            TRIREME_TRY_DONE(require(options->out, "--out"));
            return with_stored_output(options->out, OutputRule::MayExist, io, [options, &io] {
              return exit_code_of(run_data_export(*options, io));
            });
          }};
}

}  // namespace

Command tokenizer_command() {
  return {.name = "tokenizer",
          .summary = "Train, use, import and export tokenizers.",
          .subcommands = {tokenizer_train_command(), tokenizer_encode_command(),
                          tokenizer_decode_command(), tokenizer_check_command(),
                          tokenizer_import_command(), tokenizer_export_command()}};
}

Command data_command() {
  return {.name = "data",
          .summary = "Prepare, inspect, import and export token files; read images.",
          .subcommands = {data_prepare_command(), data_inspect_command(), data_import_command(),
                          data_export_command(), data_images_command()}};
}

Command schedule_command() {
  struct Rows {
    ScheduleOptions options;
    std::string times = "1,1,1,0";
    std::string format = "text";
    std::string compared;
  };
  auto rows = std::make_shared<Rows>();
  ScheduleOptions& options = rows->options;
  std::vector<std::string> kinds = schedule_kinds();
  kinds.push_back("auto");
  return {
      .name = "schedule",
      .summary = "Print, check and draw a pipeline schedule.",
      .arguments = {{.name = "KIND",
                     .doc = "kind of schedule; auto searches one for the given times and memory",
                     .target = &options.kind,
                     .required = false,
                     .choices = kinds}},
      .options = {{.name = "compare",
                   .value_name = "KIND,KIND",
                   .doc = "in place of KIND: compare several kinds on the same ranks and model, "
                          "with --times of 1/P of the model; as text, or as svg one above the "
                          "other",
                   .target = &rows->compared},
                  {.name = "stages",
                   .value_name = "P",
                   .doc = "number of ranks in the pipeline",
                   .target = &options.num_stages},
                  {.name = "microbatches",
                   .value_name = "M",
                   .doc = "number of micro-batches in a step",
                   .target = &options.num_microbatches},
                  {.name = "chunks",
                   .value_name = "V",
                   .doc = "number of stages on each rank; by default that of the kind",
                   .target = &options.num_chunks},
                  {.name = "times",
                   .value_name = "F,B,W,C",
                   .doc = "seconds of forward, input gradient, weight gradient and transfer",
                   .target = &rows->times},
                  {.name = "memory",
                   .value_name = "N",
                   .doc = "auto: largest number of chunk activations alive on a rank; 0: 2 P V",
                   .target = &options.memory_limit},
                  {.name = "format",
                   .value_name = "FORMAT",
                   .doc = "format of the output",
                   .target = &rows->format,
                   .choices = {"text", "jsonl", "svg", "html", "trace"}}},
      .examples = {"trireme schedule zb_h1 --stages 4 --microbatches 8",
                   "trireme schedule dualpipe --stages 4 --microbatches 8 --format svg > p.svg",
                   "trireme schedule zb_v --stages 4 --microbatches 8 --format html > p.html",
                   "trireme schedule --compare 1f1b,zb_h1,dualpipe --stages 4 --microbatches 8"},
      .run = [rows](CommandIo& io) -> Result<int> {
        TRIREME_TRY(times, parse_schedule_times(rows->times));
        TRIREME_TRY(format, parse_schedule_format(rows->format));
        rows->options.times = times;
        rows->options.format = format;
        if (rows->options.kind.empty() == rows->compared.empty()) {
          return Error{ErrorKind::Usage,
                       "give either KIND, such as 1f1b, or --compare with several kinds"};
        }
        if (!rows->compared.empty()) {
          return exit_code_of(compare_schedules(rows->compared, rows->options, io.out));
        }
        return exit_code_of(run_schedule(rows->options, io.out));
      }};
}

}  // namespace trireme
