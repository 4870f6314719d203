// The table of `trireme data` with its options.

#include <memory>

#include "cli/command_table.h"
#include "cli/data_command.h"
#include "cli/images_command.h"
#include "cli/stored_output.h"
#include "cli/text_arguments.h"
#include "cli/text_options.h"

namespace trireme {
namespace {

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
        TRIREME_TRY_DONE(require_option(rows->options.tokenizer, "--tokenizer"));
        TRIREME_TRY(format, parse_text_format(rows->format));
        TRIREME_TRY(held_out, parse_held_out(rows->held_out));
        rows->options.input.format = format;
        rows->options.held_out = held_out;
        rows->options.input.open_input = io.open_input;
        return with_stored_output(rows->options.out, {.resumes = true}, io, [rows, &io] {
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
            TRIREME_TRY_DONE(require_option(options->out, "--out"));
            return with_stored_output(options->out, {.may_exist = true}, io, [options, &io] {
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
            TRIREME_TRY_DONE(require_option(options->out, "--out"));
            return with_stored_output(options->out, {.may_exist = true}, io, [options, &io] {
              return exit_code_of(run_data_export(*options, io));
            });
          }};
}

}  // namespace

Command data_command() {
  return {.name = "data",
          .summary = "Prepare, inspect, import and export token files; read images.",
          .subcommands = {data_prepare_command(), data_inspect_command(), data_import_command(),
                          data_export_command(), data_images_command()}};
}

}  // namespace trireme
