"""Figures for people: tables, charts and one page that holds them all."""
