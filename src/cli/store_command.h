#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// The options of `trireme store ...` after parsing.

// Where a store is found: `join` is the address of any of its servers. If it is "", the file
// NAME.json in the folder `at` describes the store; if that is "", too, stores_folder() chooses the
// folder.
struct StorePlace {
  std::string at;
  std::string join;
};

struct StoreCreateOptions {
  std::string name;
  std::string code = "4+2";
  std::string dirs;     // folders, separated by commas
  std::string servers;  // instead of dirs: addresses of servers, separated by commas
  std::string domains;  // a failure domain for each, separated by commas; "": one each
  std::string at;
  bool json = false;
};
Result<int> run_store_create(const StoreCreateOptions& options, CommandIo& io);

struct StoreCopyOptions {
  std::string from;
  std::string to;
  StorePlace place;
  bool json = false;
};
Result<int> run_store_put(const StoreCopyOptions& options, CommandIo& io);
Result<int> run_store_get(const StoreCopyOptions& options, CommandIo& io);

struct StoreUrlOptions {
  std::string url;
  StorePlace place;
  bool json = false;
};
Result<int> run_store_ls(const StoreUrlOptions& options, CommandIo& io);
Result<int> run_store_stat(const StoreUrlOptions& options, CommandIo& io);
Result<int> run_store_status(const StoreUrlOptions& options, CommandIo& io);

struct StoreRemoveOptions {
  std::string url;
  StorePlace place;
  bool is_recursive = false;
  bool json = false;
};
// Removes a file; with is_recursive also all files of a folder.
Result<int> run_store_rm(const StoreRemoveOptions& options, CommandIo& io);

struct StoreScrubOptions {
  std::string url;
  StorePlace place;
  bool new_disk = false;
  bool json = false;
};
Result<int> run_store_scrub(const StoreScrubOptions& options, CommandIo& io);
Result<int> run_store_repair(const StoreUrlOptions& options, CommandIo& io);

struct StoreDrainOptions {
  std::string server;
  std::string url;
  StorePlace place;
  bool is_cancelled = false;
  bool json = false;
};
Result<int> run_store_drain(const StoreDrainOptions& options, CommandIo& io);

struct StoreReplaceOptions {
  std::string old;
  std::string fresh;
  std::string url;
  StorePlace place;
  bool json = false;
};
// Lets a server keep the metadata in the place of another one.
Result<int> run_store_replace_metadata(const StoreReplaceOptions& options, CommandIo& io);

struct StoreServeOptions {
  std::string dir;
  std::string listen = "127.0.0.1:0";
  std::string join;
  double scrub_share = 0.02;  // of the time, in which the server checks its own chunks
  double repair_mib = 64.0;   // in a second, in the background; 0: nothing is repaired
  double lost_after_s = 600.0;
};
// Serves until SIGINT or SIGTERM.
Result<int> run_store_serve(const StoreServeOptions& options, CommandIo& io);

// Prints a JSON object. Names of files may have bytes that are not UTF-8; they are replaced.
void print_json(const nlohmann::ordered_json& json, CommandIo& io);

}  // namespace trireme
