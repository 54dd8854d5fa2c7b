# cmake -DPAGE=page.html -DOUT=page_bytes.cc -P embed_page.cmake: the page's bytes as a source file, and the hashes by which a
# browser knows its one <script> and its one <style> (CSP level 2: base64 of SHA-256).

# base64 of 64 hex digits.
function(base64 hex result)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}0000" ${at} 6 three)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${three} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${digit} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${text}" 0 43 text)  # 32 bytes are 42 letters and two thirds
  set(${result} "${text}=" PARENT_SCOPE)
endfunction()

# The source expression of what stands between <tag> and </tag>.
function(hash_of tag page result)
  string(FIND "${page}" "<${tag}>" begin)
  string(FIND "${page}" "</${tag}>" end)
  if(begin LESS 0 OR end LESS begin)
    message(FATAL_ERROR "${PAGE} has no <${tag}> ... </${tag}>")
  endif()
  string(LENGTH "<${tag}>" length)
  math(EXPR begin "${begin} + ${length}")
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${page}" ${begin} ${length} inner)
  string(SHA256 hex "${inner}")
  base64("${hex}" text)
  set(${result} "'sha256-${text}'" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
file(READ "${PAGE}" bytes HEX)
hash_of(script "${page}" script)
hash_of(style "${page}" style)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE "${OUT}" "// Made of coordinator/page.html by cmake/embed_page.cmake.
#include \"coordinator/page.h\"

namespace colibri {
namespace {

constexpr char kBytes[] = {
${bytes}};

}  // namespace

const std::string_view kPageHtml(kBytes, sizeof kBytes);
const std::string_view kPageScriptHash = \"${script}\";
const std::string_view kPageStyleHash = \"${style}\";

}  // namespace colibri
")
