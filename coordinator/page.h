// The page at / of a server: coordinator/page.html, put into the program when it is built.
#pragma once

#include <string_view>

#include "coordinator/http_server.h"

namespace colibri {

extern const std::string_view kPageHtml;
// 'sha256-...' of the text of its one <script> and its one <style>, as a Content-Security-Policy
// names them.
extern const std::string_view kPageScriptHash, kPageStyleHash;

// The page, with a policy under which it runs its own script, asks this server and nobody else, and
// stands in no other page's frame.
void send_page(HttpReply& reply);
// The answer to a browser that looks for an icon: there is none.
void send_no_icon(HttpReply& reply);

}  // namespace colibri
