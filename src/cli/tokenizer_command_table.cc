// The table of `trireme tokenizer` with its options.

#include <memory>

#include "cli/command_table.h"
#include "cli/stored_output.h"
#include "cli/text_arguments.h"
#include "cli/text_options.h"
#include "cli/tokenizer_command.h"
#include "cli/tokenizer_interchange_command.h"

namespace trireme {
namespace {

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
        return with_stored_output(rows->options.out, {}, io, [rows, &io] {
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
            TRIREME_TRY_DONE(require_option(rows->options.tokenizer, "--tokenizer"));
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
            TRIREME_TRY_DONE(require_option(options->tokenizer, "--tokenizer"));
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
        TRIREME_TRY_DONE(require_option(rows->options.tokenizer, "--tokenizer"));
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
            return with_stored_output(options->out, {}, io, [options, &io] {
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
            TRIREME_TRY_DONE(require_option(options->tokenizer, "--tokenizer"));
            TRIREME_TRY_DONE(require_option(options->out, "--out"));
            return with_stored_output(options->out, {}, io, [options, &io] {
              return exit_code_of(run_tokenizer_export(*options, io));
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

}  // namespace trireme
