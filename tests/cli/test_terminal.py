"""What is printed is what there is: names are neither markup nor pictures."""

from cplsr.cli.terminal import print_plain, print_table, terminal
from cplsr.report.tables import table


def test_names_are_printed_as_they_are(capsys):
    print_plain(terminal(), "written to [red]a:b:c")
    print_table(terminal(), table("d:o:", ("e:x:[/]",), [("[bold]f:a:",)], "g:m:"))
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("[red]a:b:c", "d:o:", "e:x:[/]", "[bold]f:a:", "g:m:"))
