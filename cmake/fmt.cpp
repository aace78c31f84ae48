// fmt, compiled once. Debian has fmt as a shared library, which would load the shared C++ library, too, and as headers.
// With headers alone, every file that formats a line takes two more seconds to compile. The templates below are the
// ones that fmt's headers only declare.
#include <fmt/format-inl.h>

template FMT_API auto fmt::detail::dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto fmt::detail::dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API fmt::detail::locale_ref::locale_ref(const std::locale&);
template FMT_API auto fmt::detail::locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto fmt::detail::thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto fmt::detail::decimal_point_impl<char>(locale_ref) -> char;
template FMT_API void fmt::detail::buffer<char>::append(const char*, const char*);
template FMT_API void fmt::detail::vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                                              locale_ref);
