#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

// A headless Chromium, driven through Debian's chromium-driver by the WebDriver protocol.
class WebDriver {
 public:
  using Json = nlohmann::json;

  // Whether both programs are installed; `why` says what is missing.
  static bool is_installed(std::string& why);

  // Starts the driver, and a browser with a window of this size and this colour scheme.
  struct Window {
    int width = 1280;
    int height = 1600;
    bool dark = false;
  };
  explicit WebDriver(const Window& window);
  ~WebDriver();
  WebDriver(const WebDriver&) = delete;
  WebDriver& operator=(const WebDriver&) = delete;

  void open(const std::string& url);
  // The value of `return EXPRESSION`.
  Json evaluate(const std::string& expression);
  // The middle of an element, brought into view; what lies there is what a user would hit.
  void click(const std::string& selector);
  // The pointer to a place inside an element, from its middle.
  void hover(const std::string& selector, int right = 0, int down = 0);
  void wheel(const std::string& selector, int delta);
  void drag(const std::string& selector, int right);
  void press(const std::string& selector, const std::string& key);
  // Messages of the browser's console at level SEVERE.
  std::vector<std::string> console_errors();
  // A PNG of the window.
  std::string screenshot();

 private:
  Json call(const std::string& method, const std::string& path, const Json& body);
  std::string element(const std::string& selector);
  Json pointer_move(const std::string& element, int right, int down);
  void act(const Json& actions, const char* type);

  int port_ = 0;
  pid_t driver_ = -1;
  std::string session_;
};

}  // namespace trireme
