from wshard.cli.command import main as main
