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

// The options that say where a store is.
std::vector<Option> with_place(StorePlace& place, std::vector<Option> more) {
  more.insert(more.begin(), {at_option(place.at),
                             {.name = "join",
                              .value_name = "HOST:PORT",
                              .doc = "any server of the store, instead of the file of the store",
                              .target = &place.join}});
  return more;
}

Argument url_argument(std::string& url, const std::string& name, const std::string& doc) {
  return {.name = name, .doc = doc, .target = &url};
}

Command store_create_command() {
  auto options = std::make_shared<StoreCreateOptions>();
  return {
      .name = "create",
      .summary = "Make a store from folders of this host, or from running servers.",
      .arguments = {{.name = "NAME", .doc = "name of the store", .target = &options->name}},
      .options =
          {{.name = "code",
            .value_name = "CODE",
            .doc = "K+M, such as 8+3, 4+2 or 2+1; xor, which is 2+1; or copies:N",
            .target = &options->code},
           {.name = "dirs",
            .value_name = "A,B,...",
            .doc = "at least K + M folders; those that exist must be empty",
            .target = &options->dirs},
           {.name = "servers",
            .value_name = "A,B,...",
            .doc = "instead of --dirs: addresses of at least K + M servers (trireme store "
                   "serve) that belong to no store yet; the first of them keep the metadata",
            .target = &options->servers},
           {.name = "domains",
            .value_name = "X,Y,...",
            .doc = "failure domain of each folder or server; by default each folder or host is one",
            .target = &options->domains},
           at_option(options->at),
           json_option(options->json)},
      .examples = {"trireme store create demo --code 4+2 --dirs a,b,c,d,e,f",
                   "trireme store create demo --code 2+1 --servers 10.0.0.1:4000,10.0.0.2:4000,"
                   "10.0.0.3:4000"},
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
          .options = with_place(options->place, {json_option(options->json)}),
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
          .options = with_place(options->place, {json_option(options->json)}),
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
          .options = with_place(options->place, {json_option(options->json)}),
          .run = [options, run](CommandIo& io) { return run(*options, io); }};
}

Command store_rm_command() {
  auto options = std::make_shared<StoreRemoveOptions>();
  return {.name = "rm",
          .summary = "Remove a file or a folder.",
          .arguments = {url_argument(options->url, "URL", "store://NAME/PATH")},
          .options = with_place(options->place, {{.name = "recursive",
                                                  .letter = 'r',
                                                  .doc = "remove all files of a folder",
                                                  .target = &options->is_recursive},
                                                 json_option(options->json)}),
          .examples = {"trireme store rm store://demo/data/tokens.bin"},
          .run = [options](CommandIo& io) { return run_store_rm(*options, io); }};
}

Command store_scrub_command() {
  auto options = std::make_shared<StoreScrubOptions>();
  return {
      .name = "scrub",
      .summary = "Verify every chunk, and repair what is damaged or lost.",
      .arguments = {url_argument(options->url, "URL", "store://NAME, or NAME")},
      .options = with_place(
          options->place,
          {{.name = "new-disk",
            .doc = "take every empty folder as a new disk, even if no disk is mounted there or its "
                   "server is drained",
            .target = &options->new_disk},
           json_option(options->json)}),
      .examples = {"trireme store scrub demo"},
      .run = [options](CommandIo& io) { return run_store_scrub(*options, io); }};
}

Command store_drain_command() {
  auto options = std::make_shared<StoreDrainOptions>();
  return {.name = "drain",
          .summary = "Move all chunks of a server to others, also if the server is gone.",
          .details =
              "The server gets no new chunks from then on. If the others cannot take all "
              "chunks, the command is refused, and the server stays in use.",
          .arguments = {{.name = "SERVER",
                         .doc = "its name in the status, such as s2, or its folder or address",
                         .target = &options->server},
                        url_argument(options->url, "URL", "store://NAME, or NAME")},
          .options =
              with_place(options->place, {{.name = "cancel",
                                           .doc = "take the server back: it gets new chunks again",
                                           .target = &options->is_cancelled},
                                          json_option(options->json)}),
          .examples = {"trireme store drain s2 demo", "trireme store drain --cancel s2 demo"},
          .run = [options](CommandIo& io) { return run_store_drain(*options, io); }};
}

Command store_replace_metadata_command() {
  auto options = std::make_shared<StoreReplaceOptions>();
  return {.name = "replace-metadata",
          .summary = "Let a server keep the metadata in the place of one that is lost.",
          .details =
              "The store can be used meanwhile. A server whose disk was lost, and that was taken "
              "in with an empty one, may have its own place again: name it twice. If the command "
              "is interrupted, run it again.",
          .arguments = {{.name = "OLD",
                         .doc = "the server that is lost: its name in the status, or its address",
                         .target = &options->old},
                        {.name = "NEW",
                         .doc = "a running server of the store that keeps no metadata",
                         .target = &options->fresh},
                        url_argument(options->url, "URL", "store://NAME, or NAME")},
          .options = with_place(options->place, {json_option(options->json)}),
          .examples = {"trireme store replace-metadata s0 s3 demo",
                       "trireme store replace-metadata s0 s0 demo"},
          .run = [options](CommandIo& io) { return run_store_replace_metadata(*options, io); }};
}

Command store_serve_command() {
  auto options = std::make_shared<StoreServeOptions>();
  return {
      .name = "serve",
      .summary = "Serve the chunks of a store from a folder, best on a disk of its own.",
      .details =
          "With an empty folder, the server waits until a store is created with its address. With "
          "--join, it becomes a new server of that store, or the new disk of the server at this "
          "address. Servers and commands read the secret that they share from the variable "
          "TRIREME_SECRET. Servers that keep the metadata also listen at the port after that of "
          "--listen.",
      .arguments = {{.name = "DIR",
                     .doc = "the folder",
                     .target = &options->dir,
                     .completion = Completion::Folder}},
      .options = {{.name = "listen",
                   .value_name = "HOST:PORT",
                   .doc = "address of the server; a folder of a store keeps the one that it has",
                   .target = &options->listen},
                  {.name = "join",
                   .value_name = "HOST:PORT",
                   .doc = "any server of the store to join",
                   .target = &options->join},
                  {.name = "scrub-share",
                   .value_name = "SHARE",
                   .doc = "share of the time in which the server reads and checks its own chunks, "
                          "below 1; 0: never",
                   .target = &options->scrub_share},
                  {.name = "repair-rate",
                   .value_name = "MIB",
                   .doc = "MiB in a second that the server repairs in the background while it "
                          "leads the metadata; 0: nothing",
                   .target = &options->repair_mib},
                  {.name = "lost-after",
                   .value_name = "SECONDS",
                   .doc = "chunks of a server that does not answer for so long are moved to others",
                   .target = &options->lost_after_s}},
      .examples = {"trireme store serve /d0/store --listen 10.0.0.1:4000",
                   "trireme store serve /d0/store --listen 10.0.0.4:4000 --join 10.0.0.1:4000"},
      .run = [options](CommandIo& io) { return run_store_serve(*options, io); }};
}

}  // namespace

Command store_command() {
  return {
      .name = "store",
      .summary = "Keep files as erasure-coded chunks on several disks.",
      .subcommands = {
          store_serve_command(), store_create_command(), store_put_command(), store_get_command(),
          store_url_command("ls", "List the files of a store.", "store://NAME or a folder in it",
                            run_store_ls),
          store_url_command("stat", "Print where the chunks of a file are.", "store://NAME/PATH",
                            run_store_stat),
          store_rm_command(),
          store_url_command("status", "Print the health of a store and what is at risk.",
                            "store://NAME, or NAME", run_store_status),
          store_url_command("repair",
                            "Write the chunks again that are known to be damaged or lost.",
                            "store://NAME, or NAME", run_store_repair),
          store_scrub_command(), store_drain_command(), store_replace_metadata_command()}};
}

}  // namespace trireme
