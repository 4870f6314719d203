#include "cli/store_inputs.h"

#include <map>
#include <memory>
#include <mutex>

#include "base/text_input.h"
#include "store/store_file.h"
#include "store/store_input.h"
#include "store/store_path.h"

namespace trireme {
namespace {

Result<std::unique_ptr<Store>> open_for_reading(const std::string& folder,
                                                const std::string& secret,
                                                const std::string& name) {
  if (folder.empty()) {
    return usage("neither HOME nor TRIREME_STORES is set, so the store " + name +
                 " cannot be found; set TRIREME_STORES to the folder of its NAME.json");
  }
  TRIREME_TRY(file, find_store(folder, name));
  return Store::open(file, {.access = StoreAccess::Read, .secret = secret});
}

// `url` ends in the slash of a folder.
Result<InputFile> list_folder(const std::string& stores_folder, const std::string& secret,
                              const std::string& url) {
  TRIREME_TRY(folder, parse_store_url(url.substr(0, url.size() - 1)));
  TRIREME_TRY(store, open_for_reading(stores_folder, secret, folder.store));
  TRIREME_TRY(files, store->files(folder.path));
  std::string text;
  for (const WrittenFile& file : files) {
    if (file.path == folder.path) continue;  // a file has the name of the folder
    text += file.path.substr(folder.path.empty() ? 0 : folder.path.size() + 1) + "\n";
  }
  if (text.empty()) return usage(url + ": the store has no such folder");
  return input_of_text(url, std::move(text));
}

}  // namespace

OpenInput store_inputs(const std::string& stores_folder, const std::string& secret) {
  // Copies of the function share the files that are open.
  struct OpenFiles {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<const InputBytes>> files;
    std::shared_ptr<InputBudget> budget = std::make_shared<InputBudget>();
  };
  const auto open_files = std::make_shared<OpenFiles>();
  return [stores_folder, secret, open_files](const std::string& name) -> Result<InputFile> {
    if (!is_store_url(name)) {
      return usage(name + ": only names such as store://NAME/PATH are understood");
    }
    if (name.ends_with('/')) return list_folder(stores_folder, secret, name);
    TRIREME_TRY(url, parse_store_url(name));
    if (url.path.empty()) return usage(name + ": names a store; name a file of it");
    const std::lock_guard lock(open_files->mutex);
    std::weak_ptr<const InputBytes>& known = open_files->files[name];
    if (std::shared_ptr<const InputBytes> bytes = known.lock()) return InputFile(name, bytes);
    const OpenForReading open = [stores_folder, secret, store = url.store] {
      return open_for_reading(stores_folder, secret, store);
    };
    TRIREME_TRY(bytes, open_store_input(open, url.path, open_files->budget));
    known = bytes;
    return InputFile(name, std::move(bytes));
  };
}

}  // namespace trireme
