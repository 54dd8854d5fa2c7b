// A headless Chromium with one page, driven over the DevTools protocol through two pipes; nothing
// but Chromium is needed. It finds no host but this machine.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/multi/command.h"
#include "tests/support/temp_dir.h"

namespace colibri {

class Browser {
 public:
  using Json = nlohmann::json;

  // Returns when the page at `url` is loaded. Throws std::runtime_error where there is no
  // `chromium` in PATH, and for whatever does not come within half a minute.
  explicit Browser(const std::string& url) {
    start();
    const Json page = call("Target.createTarget", {{"url", "about:blank"}});
    session_ = call("Target.attachToTarget",
                    {{"targetId", page["targetId"]}, {"flatten", true}})["sessionId"];
    for (const char* part : {"Runtime", "Log", "Network", "Page"}) {
      call(std::string(part) + ".enable");
    }
    call("Page.navigate", {{"url", url}});
    if (!becomes("document.readyState === 'complete' && location.href !== 'about:blank'")) {
      throw std::runtime_error("the page is not loaded: " + url);
    }
  }
  // Chromium ends when its pipe does.
  ~Browser() {
    ::close(to_);
    run_->wait(300);
    ::close(from_);
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // The value of a JavaScript expression in the page.
  Json value_of(const std::string& expression) {
    const Json got =
        call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}});
    if (got.contains("exceptionDetails")) throw std::runtime_error(got.dump());
    return got["result"].value("value", Json());
  }
  // Whether it is true within `limit_s`.
  bool becomes(const std::string& expression, double limit_s = 30) {
    return wait_until([&] { return value_of(expression) == true; }, limit_s);
  }
  // What is shown of the first element that the selector names.
  std::string text_of(const std::string& selector) {
    return value_of("document.querySelector(" + Json(selector).dump() + ")?.textContent ?? ''");
  }

  // As a user does, into the element with this id.
  void type(const std::string& id, const std::string& text) {
    value_of("document.getElementById('" + id + "').focus()");
    if (!text.empty()) call("Input.insertText", {{"text", text}});
  }
  void press(const std::string& key, int code, const std::string& text = "") {
    Json event = {{"type", "keyDown"}, {"key", key}, {"windowsVirtualKeyCode", code}};
    if (!text.empty()) event["text"] = text;
    call("Input.dispatchKeyEvent", event);
    call("Input.dispatchKeyEvent",
         {{"type", "keyUp"}, {"key", key}, {"windowsVirtualKeyCode", code}});
  }

  Json call(const std::string& method, const Json& params = Json::object()) {
    Json message = {{"id", ++last_id_}, {"method", method}, {"params", params}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string bytes = message.dump() + '\0';
    if (::write(to_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("the browser has ended: " + run_->err_so_far());
    }
    for (;;) {
      const Json got = next();
      if (got.value("id", 0) != last_id_) {
        note(got);
        continue;
      }
      if (got.contains("error")) throw std::runtime_error(method + ": " + got.dump());
      return got["result"];
    }
  }

  // Addresses that the page asked so far; and exceptions, errors on the console, and what its
  // policy refused.
  const std::vector<std::string>& requests() const { return requests_; }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  // Chromium reads commands from descriptor 3 and writes to 4.
  void start() {
    const std::string to = dir_ / "to", from = dir_ / "from";
    ::mkfifo(to.c_str(), 0600);
    ::mkfifo(from.c_str(), 0600);
    const std::string command =
        "exec chromium --headless=new --remote-debugging-pipe --no-sandbox --disable-gpu "
        "--disable-dev-shm-usage --no-first-run --disable-background-networking "
        "--disable-component-update --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1' "
        "--user-data-dir=\"$0/profile\" 3<\"$0/to\" 4>\"$0/from\"";
    run_ = std::make_unique<Command>(
        std::vector<std::string>{"/bin/sh", "-c", command, dir_.path().string()},
        std::vector<std::string>{"HOME=" + dir_.path().string()});
    to_ = ::open(to.c_str(), O_WRONLY);
    from_ = ::open(from.c_str(), O_RDONLY);
  }

  // The next message, which ends with a zero byte.
  Json next() {
    for (size_t end; (end = unread_.find('\0')) == unread_.npos;) {
      pollfd ready{.fd = from_, .events = POLLIN, .revents = 0};
      char bytes[65536];
      const ssize_t count = ::poll(&ready, 1, 30000) > 0 ? ::read(from_, bytes, sizeof bytes) : 0;
      if (count <= 0) {
        throw std::runtime_error("the browser (Debian's package chromium) says nothing: " +
                                 run_->err_so_far());
      }
      unread_.append(bytes, static_cast<size_t>(count));
    }
    const size_t end = unread_.find('\0');
    Json message = Json::parse(unread_.substr(0, end));
    unread_.erase(0, end + 1);
    return message;
  }

  void note(const Json& event) {
    const std::string method = event.value("method", "");
    if (method == "Network.requestWillBeSent") {
      requests_.push_back(event["params"]["request"]["url"]);
    }
    // That a request was refused is logged too; the page shows it.
    const bool is_entry =
        method == "Log.entryAdded" && event["params"]["entry"]["source"] != "network";
    if (is_entry || method == "Runtime.consoleAPICalled" || method == "Runtime.exceptionThrown") {
      errors_.push_back(event["params"].dump());
    }
  }

  TempDir dir_;
  std::unique_ptr<Command> run_;
  int to_ = -1, from_ = -1, last_id_ = 0;
  std::string session_, unread_;
  std::vector<std::string> requests_, errors_;
};

}  // namespace colibri
