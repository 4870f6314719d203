#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/sealed_json.h"
#include "store/folder_identity.h"
#include "store/server_log_file.h"
#include "store/store_file.h"
#include "store/store_path.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

// A fuzzer cannot guess the checksum, so most files get a correct one.
std::string sealed(const std::string& text) {
  const std::string body = text.substr(0, text.rfind(",\n\"checksum\":\""));
  const size_t end = body.find_last_not_of(" \t\r\n");
  return end == std::string::npos ? body : seal_json(body + "}");
}

void check_store_file(const std::string& text) {
  const Result<StoreFile> file = parse_store_file(text);
  if (!file.ok()) return require(!file.error().message.empty());
  const std::string printed = text_of(*file);
  const Result<StoreFile> again = parse_store_file(printed);
  require(again.ok() && text_of(*again) == printed);
}

void check_identity_file(const std::string& text) {
  const Result<FolderIdentity> identity = parse_identity(text);
  if (!identity.ok()) return require(!identity.error().message.empty());
  const Result<FolderIdentity> again = parse_identity(text_of(*identity));
  require(again.ok() && *again == *identity);
}

void check_log_servers(const std::string& text) {
  ServerDescription description;
  LogStart start;
  if (!parse_log_servers(text, description, start).ok()) return;
  ServerDescription again;
  LogStart start_again;
  require(parse_log_servers(text_of(description, start), again, start_again).ok());
  require(again.address == description.address && again.log_address == description.log_address);
  require(again.log_servers == description.log_servers && start_again == start);
}

// A name that is taken stays below any folder.
void check_url(std::string_view text) {
  const Result<StoreUrl> url = parse_store_url(text);
  if (!url.ok()) return;
  require(url->store.find('/') == std::string::npos && !url->store.starts_with('.'));
  const std::string path = "/" + url->path + "/";
  require(path.find("/../") == std::string::npos && path.find("/./") == std::string::npos);
  require(path.find('\\') == std::string::npos && path.find('\0') == std::string::npos);
  require(url->path.empty() || path.find("//") == std::string::npos);
}

}  // namespace

// The files of a store that are JSON, and names of a store. The first byte says which of these it
// is. What is taken stays the same when it is written and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      check_store_file(text);
      break;
    case 1:
      check_identity_file(sealed(text));
      break;
    case 2:
      check_identity_file(text);
      break;
    case 3:
      check_log_servers(sealed(text));
      break;
    case 4:
      check_log_servers(text);
      break;
    case 5:
      check_url(text);
      break;
  }
  return 0;
}
