// The table of the commands of `trireme store`, with their options.

#include <memory>

#include "cli/command_table.h"
#include "cli/store_command.h"

namespace trireme {
namespace {

Option at_option(std::string& at) {
  return {.name = "at",
          .value_name = "FOLDER",
          .doc = "the folder of store files (default: TRIREME_STORES, or ~/.trireme/stores)",
          .target = &at,
          .completion = Completion::Folder};
}

Argument url_argument(std::string& url, const std::string& name, const std::string& doc) {
  return {.name = name, .doc = doc, .target = &url};
}

Command store_create_command() {
  auto options = std::make_shared<StoreCreateOptions>();
  return {
      .name = "create",
      .summary = "Make a store in folders of this host, each best on a disk of its own.",
      .arguments = {{.name = "NAME", .doc = "name of the store", .target = &options->name}},
      .options = {{.name = "code",
                   .value_name = "CODE",
                   .doc = "K+M, such as 8+3, 4+2 or 2+1; xor, which is 2+1; or copies:N",
                   .target = &options->code},
                  {.name = "dirs",
                   .value_name = "A,B,...",
                   .doc = "at least K + M folders; those that exist must be empty",
                   .target = &options->dirs},
                  {.name = "domains",
                   .value_name = "X,Y,...",
                   .doc = "failure domain of each folder; by default each folder is one of its own",
                   .target = &options->domains},
                  at_option(options->at),
                  json_option(options->json)},
      .examples = {"trireme store create demo --code 4+2 --dirs a,b,c,d,e,f"},
      .run = [options](CommandIo& io) { return run_store_create(*options, io); }};
}

Command store_put_command() {
  auto options = std::make_shared<StoreCopyOptions>();
  return {.name = "put",
          .summary = "Copy a file or a folder into a store.",
          .arguments = {{.name = "FILE",
                         .doc = "a file, or a folder with all its files",
                         .target = &options->from,
                         .completion = Completion::File},
                        url_argument(options->to, "URL", "store://NAME/PATH")},
          .options = {at_option(options->at), json_option(options->json)},
          .examples = {"trireme store put tokens.bin store://demo/data/tokens.bin"},
          .run = [options](CommandIo& io) { return run_store_put(*options, io); }};
}

Command store_get_command() {
  auto options = std::make_shared<StoreCopyOptions>();
  return {.name = "get",
          .summary = "Copy a file or a folder out of a store.",
          .details = "Chunks that are found missing or damaged are repaired.",
          .arguments = {url_argument(options->from, "URL", "store://NAME/PATH"),
                        {.name = "FILE",
                         .doc = "the file or folder to write",
                         .target = &options->to,
                         .completion = Completion::File}},
          .options = {at_option(options->at), json_option(options->json)},
          .examples = {"trireme store get store://demo/data/tokens.bin tokens.bin"},
          .run = [options](CommandIo& io) { return run_store_get(*options, io); }};
}

Command store_url_command(const std::string& name, const std::string& summary,
                          const std::string& url_doc,
                          Result<int> (*run)(const StoreUrlOptions&, CommandIo&)) {
  auto options = std::make_shared<StoreUrlOptions>();
  return {.name = name,
          .summary = summary,
          .arguments = {url_argument(options->url, "URL", url_doc)},
          .options = {at_option(options->at), json_option(options->json)},
          .run = [options, run](CommandIo& io) { return run(*options, io); }};
}

Command store_drain_command() {
  auto options = std::make_shared<StoreDrainOptions>();
  return {.name = "drain",
          .summary = "Move all chunks of a server to others, also if the server is gone.",
          .details = "The server gets no new chunks from then on.",
          .arguments = {{.name = "SERVER",
                         .doc = "its name in the status, such as s2, or its folder",
                         .target = &options->server},
                        url_argument(options->url, "URL", "store://NAME, or NAME")},
          .options = {at_option(options->at), json_option(options->json)},
          .examples = {"trireme store drain s2 demo"},
          .run = [options](CommandIo& io) { return run_store_drain(*options, io); }};
}

}  // namespace

Command store_command() {
  return {.name = "store",
          .summary = "Keep files as erasure-coded chunks on several disks.",
          .subcommands = {
              store_create_command(), store_put_command(), store_get_command(),
              store_url_command("ls", "List the files of a store.",
                                "store://NAME or a folder in it", run_store_ls),
              store_url_command("stat", "Print where the chunks of a file are.",
                                "store://NAME/PATH", run_store_stat),
              store_url_command("rm", "Remove a file.", "store://NAME/PATH", run_store_rm),
              store_url_command("status", "Print the health of a store and what is at risk.",
                                "store://NAME, or NAME", run_store_status),
              store_url_command("scrub", "Verify every chunk, and repair what is damaged or lost.",
                                "store://NAME, or NAME", run_store_scrub),
              store_drain_command()}};
}

}  // namespace trireme
