{{- define "reprise.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end }}
{{- $name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "reprise.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reprise.labels" -}}
{{ include "reprise.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "reprise.target" -}}
apiVersion: apps/v1
kind: Deployment
name: {{ include "reprise.name" . }}
{{- end }}

{{- define "reprise.secret" -}}
{{ .Values.existingSecret | default (include "reprise.name" .) }}
{{- end }}

{{- define "reprise.toml" -}}
listen = ["*:8080"]
admin_listen = ["*:9090"]
shutdown_delay = "{{ .Values.shutdownDelay }}s"
drain_timeout = "{{ .Values.drainTimeout }}s"
{{- with .Values.server.options }}
{{ . | trim }}
{{- end }}
{{- if .Values.releases.pool }}
release_state = "/var/lib/reprise/releases"
release_shared = "/var/lib/reprise/shared"
{{- end }}

[[application]]
name = "app"
root = {{ .Values.application.root | quote }}
{{- with .Values.dataCache }}{{ if .store }}
data_cache_store = {{ .store | quote }}
data_cache_secret = {{ required "dataCache.secret: at least 16 bytes that sign what is in the store" .secret | quote }}
{{- end }}{{ end }}
{{- with .Values.releases }}{{ if .pool }}
release_pool = {{ .pool | quote }}
release_keys = {{ .keys | toJson }}
{{- end }}{{ end }}
{{- with .Values.application.options }}
{{ . | trim }}
{{- end }}
{{ end }}
